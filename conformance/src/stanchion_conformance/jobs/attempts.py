"""Attempts are counted at delivery, and failures separately; after the last attempt the job is dead."""

from __future__ import annotations

import pytest

from stanchion import JobState, Queue, Retry
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED, Claim
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, state, worker


class TestAttempts:
    def test_are_counted_at_delivery(self, q: Queue, store: Store) -> None:
        pushed = q.push({})
        assert row_of(store, pushed.id).attempts == 0
        (job,) = q.reserve()
        assert job.attempt == 1
        assert row_of(store, pushed.id).attempts == 1

    def test_a_pop_that_died_before_its_commit_is_none(self, q: Queue, store: Store, clock: StoreClock) -> None:
        pushed = q.push({}, max_attempts=1)
        (row,) = store.claim(Claim(QUEUE, 1, new_id(), lease=10, delivery=POPPED)).rows
        clock.advance(11)
        assert store.settle([Commit(row.lease)]) == [None]
        assert [lost.attempts for lost in store.recover()] == [0]
        popped = q.pop()
        assert popped is not None
        assert (popped.id, popped.attempts) == (pushed.id, 1)
        counts = counts_of(store, QUEUE)
        assert (counts.reserved, counts.committed, counts.popped) == (0, 0, 1)

    @pytest.mark.parametrize("how", ["claim", "pop", "recover"])
    def test_a_job_that_kills_its_workers_ends_dead(self, q: Queue, clock: StoreClock, how: str) -> None:
        pushed = q.push({}, max_attempts=3)
        for attempt in (1, 2, 3):
            found = q.reserve(lease=10)
            if attempt == 3:  # after two it waits
                assert found == []
                clock.advance(100)
                found = q.reserve(lease=10)
            (job,) = found
            assert job.attempt == attempt
            clock.advance(11)
            if how == "recover":
                context_of(q).store.recover()
        assert (q.pop() if how == "pop" else q.reserve()) in (None, [])
        dead = q.get(pushed.id)
        assert dead is not None
        assert (dead.state, dead.attempts, dead.failures) == (JobState.DEAD, 3, 0)
        assert [entry["error"].split(":")[0] for entry in dead.errors] == ["LeaseLost"] * 3
        assert q.size().total == 0

    def test_so_does_one_that_kills_whole_workers(self, store: Store, clock: StoreClock) -> None:
        job = new_job(max_attempts=2)
        store.push([job])
        for name in ("one", "two"):
            store.beat([worker(name)])
            assert len(claim(store, worker=name)) == 1
            clock.advance(31)
            store.recover()
        assert state(store, job.id) is JobState.DEAD

    def test_the_last_failure_ends_dead(self, q: Queue) -> None:
        pushed = q.push({}, max_attempts=2)
        q.reserve()[0].rollback(delay=0, error="first")
        (job,) = q.reserve()
        job.rollback(delay=0, error="second")
        assert job.state is JobState.DEAD
        dead = q.get(pushed.id)
        assert dead is not None
        assert (dead.state, dead.failures) == (JobState.DEAD, 2)
        assert [entry["error"] for entry in dead.errors] == ["first", "second"]
        assert q.reserve() == []

    def test_used_up_without_an_error_end_dead_too(self, q: Queue) -> None:
        pushed = q.push({}, max_attempts=1)
        q.reserve()[0].rollback(delay=0)
        dead = q.get(pushed.id)
        assert dead is not None
        assert dead.state is JobState.DEAD

    def test_are_25_by_default(self, store: Store) -> None:
        job = new_job()
        store.push([job])
        for _ in range(24):
            (row,) = claim(store)
            assert store.settle([Rollback(row.lease, 0.0, error="e")]) == [JobState.READY]
        (row,) = claim(store)
        assert row.attempts == 25
        assert store.settle([Rollback(row.lease, 0.0, error="e")]) == [JobState.DEAD]

    @pytest.mark.parametrize(("failures", "seconds"), [(1, 6), (2, 21), (3, 86)])
    def test_the_delay_grows_with_the_failures(self, q: Queue, store: Store, failures: int, seconds: float) -> None:
        q.push({})
        for _ in range(failures - 1):
            q.reserve()[0].rollback(delay=0, error="e")
        (job,) = q.reserve()
        before = store.now()
        job.rollback(error="e")
        delay = (row_of(store, job.id).run_at - before) / 1e6
        assert seconds * 0.9 <= delay <= seconds * 1.1 + 5

    def test_the_delay_is_that_of_the_policy(self, q: Queue, store: Store) -> None:
        context_of(q).retry = Retry.constant(300, jitter=0)
        q.push({})
        (job,) = q.reserve()
        before = store.now()
        job.rollback(error="e")
        assert 300 <= (row_of(store, job.id).run_at - before) / 1e6 <= 305

    def test_a_shutdown_uses_none_up(self, q: Queue) -> None:
        q.push({}, max_attempts=1)
        for _ in range(3):
            (job,) = q.reserve()
            assert job.attempt == 1
            job.release()
        assert q.size().ready == 1
