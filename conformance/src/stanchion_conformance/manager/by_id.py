"""Claims of jobs by their ids, each for a worker of its own."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED, Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Move, Rollback
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, sizes_of, state, worker


def named(*jobs: NewJob | str, worker: str = "w", **fields: Any) -> Claim:
    """Return a claim of these jobs for one worker."""
    ids = tuple((one if isinstance(one, str) else one.id, worker) for one in jobs)
    return Claim(**{"queue": QUEUE, "limit": len(ids), "token": new_id(), "ids": ids, **fields})


def claim_ids(store: Store, *jobs: NewJob | str, worker: str = "w", **fields: Any) -> list[str]:
    """Reserve these jobs for one worker; return the ids of those that came."""
    return [row.id for row in store.claim(named(*jobs, worker=worker, **fields)).rows]


def pushed(store: Store, count: int, **fields: Any) -> list[NewJob]:
    """Store some jobs."""
    jobs = [new_job(str(number), **fields) for number in range(count)]
    store.push(jobs)
    return jobs


class TestClaimsById:
    def test_in_the_order_of_the_ids(self, store: Store) -> None:
        jobs = [new_job(priority=number) for number in range(5)]
        store.push(jobs)
        wanted = [jobs[number].id for number in (3, 0, 4, 1)]
        assert claim_ids(store, *wanted) == wanted
        assert [row.id for row in claim(store, 9)] == [jobs[2].id]

    def test_each_for_its_worker(self, store: Store, clock: StoreClock) -> None:
        first, second, third = pushed(store, 3)
        store.beat([worker("a"), worker("b")])
        ids = ((third.id, "b"), (first.id, "a"), (second.id, ""))
        wish = Claim(QUEUE, 3, new_id(), lease=60.0, holder="h", ids=ids)
        rows = store.claim(wish).rows
        assert [(row.id, row.worker, row.lease_until is None) for row in rows] == [
            (third.id, "b", True),
            (first.id, "a", True),
            (second.id, "h", False),
        ]
        assert rows == [row_of(store, row.id) for row in rows]
        assert {one.id: one.running for one in store.workers()} == {"a": 1, "b": 1}
        clock.advance(29)
        store.beat([worker("a")])
        clock.advance(2)
        assert [row.id for row in store.recover()] == [third.id]
        clock.advance(28)
        store.beat([worker("a")])
        clock.advance(2)
        assert [row.id for row in store.recover()] == [second.id]
        assert state(store, first.id) is JobState.RUNNING

    def test_as_any_claim_counts(self, store: Store) -> None:
        (job,) = pushed(store, 1)
        wish = named(job)
        (row,) = store.claim(wish).rows
        assert (row.state, row.attempts, row.token, row.payload) == ("running", 1, wish.token, "0")
        assert row.started_at is not None
        assert row.lease_until is None
        assert (sizes_of(store, QUEUE).running, counts_of(store, QUEUE).reserved) == (1, 1)
        assert store.settle([Rollback(row.lease, 0.0)]) == [JobState.READY]
        (row,) = store.claim(named(job)).rows
        assert (row.attempts, counts_of(store, QUEUE).reserved) == (2, 2)
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]
        assert counts_of(store, QUEUE).committed == 1

    def test_what_is_not_there_to_claim_does_not_come(self, store: Store) -> None:
        elsewhere, future = new_job(queue="other"), new_job(delay=60.0)
        ready, running, done, gone = pushed(store, 4)
        store.push([elsewhere, future])
        (held,) = store.claim(named(running)).rows
        (ended,) = store.claim(named(done)).rows
        store.settle([Commit(ended.lease)])
        assert store.cancel([gone.id]) == [JobState.CANCELLED]
        wish = named(elsewhere, future, running, done, gone, new_id(), ready)
        assert [row.id for row in store.claim(wish).rows] == [ready.id]
        assert row_of(store, running.id) == held
        assert store.claim(named(ready)) == Claimed([])

    def test_each_once(self, store: Store) -> None:
        first, second = pushed(store, 2)
        assert claim_ids(store, first, second, first, limit=9) == [first.id, second.id]
        assert row_of(store, first.id).attempts == 1
        (third,) = pushed(store, 1)
        ids = ((third.id, "a"), (third.id, "b"))
        assert [row.worker for row in store.claim(Claim(QUEUE, 2, new_id(), ids=ids)).rows] == ["a"]

    def test_no_more_than_the_limit(self, store: Store) -> None:
        jobs = pushed(store, 4)
        ids = [job.id for job in reversed(jobs)]
        assert claim_ids(store, *ids, limit=2) == ids[:2]
        assert claim_ids(store, *ids, limit=0) == []
        assert claim_ids(store, *ids) == ids[2:]

    def test_of_a_queue_that_does_not_exist(self, store: Store) -> None:
        assert store.claim(named(new_id(), queue="missing")) == Claimed([])
        assert store.queues(["missing"]) == []

    def test_due_from_its_time_on(self, store: Store, clock: StoreClock) -> None:
        job = new_job(delay=60.0)
        store.push([job])
        assert claim_ids(store, job) == []
        clock.advance(61)
        assert claim_ids(store, job) == [job.id]

    def test_what_has_moved_on(self, store: Store) -> None:
        (job,) = pushed(store, 1)
        (row,) = store.claim(named(job)).rows
        store.settle([Move(row.lease, "other")])
        assert claim_ids(store, job) == []
        assert claim_ids(store, job, queue="other") == [job.id]
        assert row_of(store, job.id).attempts == 1

    def test_the_payload_of_now(self, store: Store) -> None:
        job = new_job('"old"', key="k")
        store.push([job])
        store.push([new_job('"new"', key="k", on_duplicate="replace")])
        assert [row.payload for row in store.claim(named(job)).rows] == ['"new"']

    def test_many(self, store: Store) -> None:
        jobs = pushed(store, 600)
        ids = tuple((job.id, f"w{number % 7}") for number, job in enumerate(reversed(jobs)))
        rows = store.claim(Claim(QUEUE, 600, new_id(), ids=ids)).rows
        assert [(row.id, row.worker) for row in rows] == list(ids)

    def test_a_pop(self, store: Store) -> None:
        (job,) = pushed(store, 1)
        (row,) = store.claim(named(job, delivery=POPPED)).rows
        assert counts_of(store, QUEUE).reserved == 0
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]
        assert counts_of(store, QUEUE).popped == 1

    def test_only_their_number(self, store: Store) -> None:
        jobs = pushed(store, 5)
        claimed = store.claim(named(*jobs[:3], rows=False))
        assert (claimed.rows, claimed.reserved) == ([], 3)
        assert sizes_of(store, QUEUE).running == 3

    def test_an_expired_lease(self, store: Store, clock: StoreClock) -> None:
        first, second = pushed(store, 2)
        assert claim(store, lease=10.0)[0].id == first.id
        clock.advance(11)
        assert claim_ids(store, second) == [second.id]
        assert [row.id for row in store.recover()] in ([first.id], [])
        clock.advance(100)
        assert claim_ids(store, first) == [first.id]
        assert row_of(store, first.id).attempts == 2

    def test_other_claims_go_on(self, store: Store) -> None:
        jobs = pushed(store, 6)
        assert claim_ids(store, jobs[1], jobs[4]) == [jobs[1].id, jobs[4].id]
        assert [row.id for row in claim(store, 9)] == [jobs[number].id for number in (0, 2, 3, 5)]


class TestRepeatedClaimsById:
    def test_what_the_token_holds(self, store: Store) -> None:
        jobs = pushed(store, 4)
        wish = named(jobs[3], jobs[0], jobs[2])
        before = store.claim(wish).rows
        assert store.claim(wish._replace(repeat=True)).rows == before
        assert sizes_of(store, QUEUE).running == 3
        store.settle([Commit(before[0].lease)])
        assert store.claim(wish._replace(repeat=True, limit=0)).rows == before[1:]

    def test_nothing_held_yet(self, store: Store) -> None:
        jobs = pushed(store, 2)
        assert claim_ids(store, *jobs, repeat=True) == [job.id for job in jobs]
        assert claim_ids(store, *jobs, repeat=True) == []

    def test_held_past_the_bound(self, store: Store, clock: StoreClock) -> None:
        (job,) = pushed(store, 1)
        wish = named(job, not_after=store.now() + 60 * SECOND)
        before = store.claim(wish).rows
        assert len(before) == 1
        clock.advance(61)
        assert store.claim(wish._replace(repeat=True)).rows == before


class TestNotAfter:
    @pytest.mark.parametrize("fields", [{}, {"order_key": "k"}, {"lane": 3}], ids=str)
    @pytest.mark.parametrize("settings", [{}, {"max_running": 100}, {"max_rate": 1e6}], ids=str)
    def test_nothing_is_reserved_past_it(
        self, store: Store, clock: StoreClock, settings: dict[str, Any], fields: dict[str, Any]
    ) -> None:
        store.configure(QUEUE, settings)
        first, second = pushed(store, 2, **fields)
        until = store.now() + 60 * SECOND
        clock.advance(61)
        assert store.claim(named(first, not_after=until)).rows == []
        assert store.claim(Claim(QUEUE, 5, new_id(), not_after=until)).rows == []
        assert [row_of(store, one.id).state for one in (first, second)] == ["queued", "queued"]
        assert counts_of(store, QUEUE).reserved == 0
        later = store.now() + 60 * SECOND
        assert claim_ids(store, first, not_after=later) == [first.id]

    def test_of_any_jobs_before_it(self, store: Store) -> None:
        jobs = pushed(store, 2)
        rows = store.claim(Claim(QUEUE, 5, new_id(), not_after=store.now() + 60 * SECOND)).rows
        assert [row.id for row in rows] == [job.id for job in jobs]

    def test_none_waits_for_anything_past_it(self, store: Store) -> None:
        store.set_semaphore("smtp", 0)
        (job,) = pushed(store, 1, limits='{"hold": ["smtp"]}')
        store.claim(named(job, not_after=store.now() - 1))
        assert row_of(store, job.id).state == "queued"


def lose_leases(store: Store, clock: StoreClock, job_id: str, times: int) -> None:
    """Let the holder of a job die some times."""
    for _ in range(times):
        clock.advance(1000)
        assert claim_ids(store, job_id, worker="", lease=1.0) == [job_id]
        clock.advance(2)
        assert [row.id for row in store.recover()] == [job_id]
    clock.advance(1000)


class TestAloneById:
    """A job that has lost two leases goes to its worker alone."""

    def test_the_other_jobs_of_its_worker_stay(self, store: Store, clock: StoreClock) -> None:
        bad = new_job('"bad"')
        store.push([bad])
        lose_leases(store, clock, bad.id, 2)
        mine, others, later = pushed(store, 3)
        ids = ((others.id, "b"), (bad.id, "a"), (mine.id, "a"), (later.id, "b"))
        rows = store.claim(Claim(QUEUE, 4, new_id(), ids=ids)).rows
        assert [(row.id, row.worker) for row in rows] == [(others.id, "b"), (bad.id, "a"), (later.id, "b")]
        left = row_of(store, mine.id)
        assert (left.state, left.attempts, left.worker) == ("queued", 0, None)

    def test_it_stays_behind_others(self, store: Store, clock: StoreClock) -> None:
        bad = new_job('"bad"')
        store.push([bad])
        lose_leases(store, clock, bad.id, 2)
        attempts = row_of(store, bad.id).attempts
        first, last = pushed(store, 2)
        assert claim_ids(store, first, bad, last) == [first.id]
        assert row_of(store, bad.id).attempts == attempts
        assert [row.id for row in rows_of(store, bad, last)] == [bad.id]


def rows_of(store: Store, *jobs: NewJob) -> list[JobRow]:
    """Reserve these jobs for one worker."""
    return store.claim(named(*jobs)).rows
