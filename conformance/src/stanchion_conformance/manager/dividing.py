"""Claims by ids that divide jobs, and run none."""

from __future__ import annotations

from typing import Any

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import DIVIDED, Claim, Claimed
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback, Tally
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, sizes_of, state
from stanchion_conformance.manager.by_id import named, pushed


def dividing(*jobs: NewJob | str, **fields: Any) -> Claim:
    """Return a claim that divides these jobs, held for 60 seconds."""
    return named(*jobs, worker="", **{"delivery": DIVIDED, "lease": 60.0, **fields})


class TestClaimsToDivide:
    def test_no_pause_and_no_limit_counts(self, store: Store) -> None:
        store.configure(QUEUE, {"paused": True, "max_running": 1, "max_rate": 0.01})
        first, second = pushed(store, 2)
        assert [row.id for row in store.claim(dividing(first)).rows] == [first.id]
        assert [row.id for row in store.claim(dividing(second)).rows] == [second.id]
        assert (sizes_of(store, QUEUE).running, counts_of(store, QUEUE).reserved) == (2, 0)

    def test_it_takes_no_start_from_the_rate(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"max_rate": 0.01})
        first, second, third = pushed(store, 3)
        assert [row.id for row in claim(store, 9)] == [first.id]
        clock.advance(101)
        (row,) = store.claim(dividing(second)).rows
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]
        assert [row.id for row in claim(store)] == [third.id]

    def test_a_job_that_is_not_due_keeps_its_time(self, store: Store) -> None:
        job = new_job(delay=600.0)
        store.push([job])
        before = row_of(store, job.id)
        (row,) = store.claim(dividing(job)).rows
        assert (row.run_at, row.attempts) == (before.run_at, 1)
        assert store.settle([Rollback(row.lease, 0.0, refund=True)]) == [JobState.SCHEDULED]
        again = row_of(store, job.id)
        assert (again.run_at, again.attempts, state(store, job.id)) == (before.run_at, 0, JobState.SCHEDULED)

    def test_other_jobs_do_not_come(self, store: Store) -> None:
        elsewhere = new_job(queue="other")
        store.push([elsewhere])
        running, done = pushed(store, 2)
        claim(store)
        (ended,) = claim(store)
        store.settle([Commit(ended.lease)])
        assert store.claim(dividing(elsewhere, running, done, new_id())) == Claimed([])

    def test_one_holder_has_it(self, store: Store) -> None:
        (job,) = pushed(store, 1)
        assert len(store.claim(dividing(job)).rows) == 1
        assert store.claim(dividing(job)) == Claimed([])
        assert claim(store) == []

    def test_a_death_is_no_attempt(self, store: Store, clock: StoreClock) -> None:
        (job,) = pushed(store, 1)
        (row,) = store.claim(dividing(job)).rows
        clock.advance(61)
        assert [one.id for one in store.recover()] == [job.id]
        assert (row_of(store, job.id).attempts, state(store, job.id)) == (0, JobState.READY)
        assert store.settle([Commit(row.lease)]) == [None]

    def test_a_repeat_returns_what_it_has(self, store: Store) -> None:
        (job,) = pushed(store, 1)
        wish = dividing(job)
        first = store.claim(wish).rows
        assert store.claim(wish._replace(repeat=True)).rows == first

    def test_the_parts_of_a_paused_job_count_nothing(self, store: Store) -> None:
        store.configure(QUEUE, {"paused": True})
        (job,) = pushed(store, 1)
        (row,) = store.claim(dividing(job)).rows
        part = new_job(origin=job.id)
        ended = Commit(row.lease, jobs=(part,), tallies=(Tally(QUEUE, "pushed", -1),))
        assert store.settle([ended]) == [JobState.DONE]
        counts = counts_of(store, QUEUE)
        assert (counts.pushed, counts.reserved, counts.moved, counts.committed) == (1, 0, 0, 0)
        assert (sizes_of(store, QUEUE).ready, row_of(store, job.id).items) == (1, 0)
