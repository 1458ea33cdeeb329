"""A job that expires is begun in time, or not at all: it ends as cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import JobState, Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED, Claim
from stanchion.stores.records.jobs import NewJob, Redriven
from stanchion.stores.records.outcomes import Bury, Commit, Continue, Move, Rollback
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, state, worker


def expiring(**fields: Any) -> NewJob:
    """Return a job that expires in 10 seconds."""
    return new_job(**{"expires": 10.0, **fields})


def ended(store: Store, job: NewJob) -> tuple[JobState, int, str]:
    """Return the state of a job, its attempts, and the text of its last error."""
    row = row_of(store, job.id)
    return state(store, job.id), row.attempts, row.errors or ""


class TestExpiryOfJobs:
    def test_a_claim_in_time_delivers(self, store: Store, clock: StoreClock) -> None:
        store.push([expiring()])
        clock.advance(9)
        (row,) = claim(store)
        assert row.expires == 10.0
        clock.advance(60)
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]
        assert counts_of(store, QUEUE).lapsed == 0

    def test_a_late_claim_ends_it(self, store: Store, clock: StoreClock) -> None:
        jobs = [expiring(), new_job()]
        store.push(jobs)
        clock.advance(10)
        assert [row.id for row in claim(store, 1) or claim(store, 1)] == [jobs[1].id]
        found, attempts, errors = ended(store, jobs[0])
        assert (found, attempts) == (JobState.CANCELLED, 0)
        assert "expired" in errors
        counts = counts_of(store, QUEUE)
        assert (counts.lapsed, counts.cancelled) == (1, 0)

    def test_it_tells_to_claim_again(self, store: Store, clock: StoreClock) -> None:
        store.push([expiring() for _ in range(3)] + [new_job()])
        clock.advance(10)
        claimed = store.claim(Claim(QUEUE, 3, new_id(), lease=60.0))
        assert (claimed.rows, claimed.retry_in) == ([], 0.0)
        assert len(claim(store, 3)) == 1

    @pytest.mark.parametrize("fields", [{"worker": "w"}, {"delivery": POPPED}, {"lanes": (0, 3)}])
    def test_of_any_claim(self, store: Store, clock: StoreClock, fields: dict[str, Any]) -> None:
        store.beat([worker("w")])
        job = expiring(lane=2 if "lanes" in fields else -1)
        store.push([job])
        clock.advance(10)
        store.beat([worker("w")])
        assert claim(store, **fields) == []
        assert ended(store, job)[:2] == (JobState.CANCELLED, 0)

    def test_of_a_claim_by_ids(self, store: Store, clock: StoreClock) -> None:
        jobs = [expiring(), new_job()]
        store.push(jobs)
        clock.advance(10)
        ids = tuple((job.id, "") for job in jobs)
        assert [row.id for row in store.claim(Claim(QUEUE, 2, new_id(), lease=60.0, ids=ids)).rows] == [jobs[1].id]
        assert ended(store, jobs[0])[:2] == (JobState.CANCELLED, 0)

    def test_of_a_batch_that_nobody_reads(self, store: Store, clock: StoreClock) -> None:
        jobs = [expiring(), new_job(), new_job()]
        store.push(jobs)
        clock.advance(10)
        token = new_id()
        assert store.claim(Claim(QUEUE, 3, token, lease=60.0, rows=False)).reserved == 2
        assert ended(store, jobs[0])[:2] == (JobState.CANCELLED, 0)

    def test_of_a_queue_with_limits(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"max_running": 1})
        jobs = [expiring(), new_job()]
        store.push(jobs)
        clock.advance(10)
        assert [row.id for row in claim(store) or claim(store)] == [jobs[1].id]

    def test_an_expired_job_keeps_no_slot(self, store: Store, clock: StoreClock) -> None:
        limits = limits_text(Limits(("smtp",)))
        jobs = [expiring(limits=limits), new_job(limits=limits)]
        store.push(jobs)
        clock.advance(10)
        assert [row.id for row in claim(store) or claim(store)] == [jobs[1].id]

    def test_a_failed_attempt_is_not_repeated_after_it(self, store: Store, clock: StoreClock) -> None:
        job = expiring()
        store.push([job])
        (row,) = claim(store)
        assert store.settle([Rollback(row.lease, 20.0, "no")]) == [JobState.SCHEDULED]
        clock.advance(20)
        assert claim(store) == []
        found, attempts, errors = ended(store, job)
        assert (found, attempts) == (JobState.CANCELLED, 1)
        assert "expired" in errors

    def test_a_lost_lease_is_not_repeated_after_it(self, store: Store, clock: StoreClock) -> None:
        job = expiring()
        store.push([job])
        store.claim(Claim(QUEUE, 1, new_id(), lease=5.0))
        clock.advance(12)
        assert claim(store) == []
        assert state(store, job.id) == JobState.CANCELLED

    def test_upkeep_ends_it(self, store: Store, clock: StoreClock) -> None:
        jobs = [expiring(), expiring(expires=100.0), new_job(), expiring(delay=50.0)]
        store.push(jobs)
        clock.advance(10)
        store.maintain()
        states = [state(store, job.id) for job in jobs]
        assert states == [JobState.CANCELLED, JobState.READY, JobState.READY, JobState.CANCELLED]
        assert counts_of(store, QUEUE).lapsed == 2

    def test_a_feed_tells_its_end(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        with app.watch([QUEUE], ["finished"]) as feed:
            pushed = q.push({}, expires=10)
            clock.advance(10)
            store.maintain()
            event = feed.next(60)
        assert event is not None
        assert (event.kind, event.id, event.state, event.attempt) == ("finished", pushed.id, JobState.CANCELLED, 0)

    def test_upkeep_ends_jobs_of_a_paused_queue(self, store: Store, clock: StoreClock) -> None:
        job = expiring()
        store.push([job])
        store.configure(QUEUE, {"paused": True})
        clock.advance(10)
        store.maintain()
        assert state(store, job.id) == JobState.CANCELLED

    def test_upkeep_ends_jobs_that_wait_for_a_slot(self, store: Store, clock: StoreClock) -> None:
        limits = limits_text(Limits(("smtp",)))
        jobs = [new_job(limits=limits), expiring(limits=limits), new_job(limits=limits)]
        store.push(jobs)
        (row,) = claim(store)
        assert claim(store, 3) == []
        assert state(store, jobs[1].id) == JobState.WAITING
        clock.advance(10)
        store.maintain()
        assert state(store, jobs[1].id) == JobState.CANCELLED
        store.settle([Commit(row.lease)])
        assert [row.id for row in claim(store, 3)] == [jobs[2].id]

    def test_upkeep_leaves_running_jobs_alone(self, store: Store, clock: StoreClock) -> None:
        job = expiring()
        store.push([job])
        (row,) = claim(store)
        clock.advance(30)
        store.maintain()
        assert state(store, job.id) == JobState.RUNNING
        assert store.settle([Rollback(row.lease, 0.0, "no")]) == [JobState.READY]
        clock.advance(61)
        store.maintain()
        assert state(store, job.id) == JobState.CANCELLED

    def test_upkeep_ends_many(self, store: Store, clock: StoreClock) -> None:
        store.push([expiring() for _ in range(1200)])
        clock.advance(10)
        store.maintain(30.0)
        assert counts_of(store, QUEUE).lapsed == 1200

    def test_a_retry_takes_it_away(self, store: Store, clock: StoreClock) -> None:
        job = expiring()
        store.push([job])
        clock.advance(10)
        store.maintain()
        assert store.retry([job.id]) == [Redriven.READY]
        assert row_of(store, job.id).expires is None
        assert [row.id for row in claim(store)] == [job.id]

    def test_it_holds_in_its_first_queue_only(self, store: Store, clock: StoreClock) -> None:
        job = expiring()
        store.push([job])
        (row,) = claim(store)
        store.settle([Move(row.lease, "next")])
        clock.advance(60)
        assert [row.id for row in claim(store, queue="next")] == [job.id]

    @pytest.mark.parametrize("queue", [QUEUE, "next"])
    def test_a_next_call_has_its_own_time(self, store: Store, clock: StoreClock, queue: str) -> None:
        jobs = [new_job(), expiring()]
        store.push(jobs)
        rows = claim(store, 2)
        clock.advance(60)
        store.settle([Continue(row.lease, expiring(id=row.id, queue=queue)) for row in rows])
        clock.advance(9)
        store.maintain()
        assert [row.id for row in claim(store, queue=queue)] == [jobs[0].id]
        assert counts_of(store, queue).lapsed == 0
        clock.advance(1)
        store.maintain()
        assert state(store, jobs[1].id) == JobState.CANCELLED
        assert counts_of(store, queue).lapsed == 1

    def test_a_dead_letter_does_not_expire(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"dead_letter": "letters"})
        job = expiring()
        store.push([job])
        (row,) = claim(store)
        store.settle([Bury(row.lease, "no")])
        clock.advance(60)
        store.maintain()
        assert [row.id for row in claim(store, queue="letters")] == [job.id]

    def test_adopted_jobs_expire(self, store: Store, clock: StoreClock) -> None:
        job = expiring()
        store.push([job])
        row = row_of(store, job.id)._replace(id=new_id())
        assert store.adopt([row]) == [True]
        clock.advance(10)
        store.maintain()
        assert row_of(store, row.id).state == JobState.CANCELLED

    def test_the_default_of_the_queue(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        q = app.queue(QUEUE, jobs_expire=10)
        jobs = [q.push({}), q.push({}, expires=100)]
        assert [row_of(store, job.id).expires for job in jobs] == [10.0, 100.0]
        clock.advance(10)
        store.maintain()
        assert [state(store, job.id) for job in jobs] == [JobState.CANCELLED, JobState.READY]

    def test_a_copy_has_the_same_time_again(self, q: Queue, store: Store, clock: StoreClock) -> None:
        job = q.push({}, expires=10)
        (row,) = claim(store)
        store.settle([Commit(row.lease)])
        clock.advance(60)
        (copy,) = q.replay([job.id])
        assert row_of(store, copy.id).expires == 10.0
        assert [row.id for row in claim(store)] == [copy.id]

    @pytest.mark.parametrize("expires", [0, -1, "soon", True, float("nan")])
    def test_what_is_no_time_is_refused(self, q: Queue, expires: Any) -> None:
        with pytest.raises(InvalidInput, match="expires"):
            q.push({}, expires=expires)
