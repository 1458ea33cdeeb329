"""Finished jobs that are kept elsewhere: deleted as they were seen, and no others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from stanchion import Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, Redriven
from stanchion.stores.records.outcomes import Bury
from stanchion_conformance.harness import QUEUE, claim, row_of, state

MANY = 2_500
ROUNDS = 10


def bury(q: Queue, count: int = 1) -> list[JobRow]:
    """Push jobs that end as dead; return them as they are in history."""
    ids = [job.id for job in q.push_many(list(range(count)))]
    store = q.context.store
    while rows := claim(store, 500, queue=q.name):
        store.settle([Bury(row.id, row.token or "", "no money") for row in rows])
    found = store.fetch(ids)
    return [found[job_id] for job_id in ids]


def end(row: JobRow) -> tuple[str, int]:
    """Return how a finished job is named."""
    assert row.finished_at is not None
    return row.id, row.finished_at


class TestDiscard:
    def test_deletes_the_named_and_no_others(self, q: Queue, other_store: Store) -> None:
        first, second, third = bury(q, 3)
        before = q.counts()
        assert other_store.discard([end(first), end(third), end(first)]) == 2
        assert list(other_store.fetch([first.id, second.id, third.id])) == [second.id]
        assert [job.id for job in q.history()] == [second.id]
        assert q.counts() == before

    def test_none_and_unknown_ones(self, store: Store) -> None:
        assert store.discard([]) == 0
        assert store.discard([(new_id(), store.now())]) == 0

    def test_a_repeat_deletes_nothing(self, q: Queue, store: Store) -> None:
        (dead,) = bury(q)
        assert store.discard([end(dead)]) == 1
        assert store.discard([end(dead)]) == 0

    def test_live_jobs_stay(self, q: Queue, store: Store) -> None:
        queued, scheduled = q.push(1), q.push(2, delay=60)
        running = q.reserve()[0]
        now = store.now()
        assert running.id == queued.id
        assert store.discard([(queued.id, now), (scheduled.id, now)]) == 0
        assert {row.state for row in store.fetch([queued.id, scheduled.id]).values()} == {"running", "queued"}

    def test_one_that_was_re_driven_stays(self, q: Queue, store: Store) -> None:
        (dead,) = bury(q)
        assert store.retry([dead.id]) == [Redriven.READY]
        assert store.discard([end(dead)]) == 0
        assert state(store, dead.id) is JobState.READY
        q.reserve()[0].commit("paid")
        assert store.discard([end(dead)]) == 0
        again = row_of(store, dead.id)
        assert again.state == JobState.DONE
        assert store.discard([end(again)]) == 1
        assert store.fetch([dead.id]) == {}

    def test_of_several_queues(self, q: Queue, store: Store) -> None:
        rows = [*bury(q, 2), *bury(Stanchion.of(q.context).queue("other"), 2)]
        assert store.discard([end(row) for row in rows]) == 4
        assert store.fetch([row.id for row in rows]) == {}

    def test_many(self, q: Queue, store: Store) -> None:
        rows = bury(q, MANY)
        assert store.discard([end(row) for row in rows]) == MANY
        assert q.history() == []

    def test_against_a_retry(self, q: Queue, store: Store, other_store: Store) -> None:
        for _ in range(ROUNDS):
            (dead,) = bury(q)
            with ThreadPoolExecutor(2) as pool:
                discarding = pool.submit(store.discard, [end(dead)])
                retrying = pool.submit(other_store.retry, [dead.id])
                discarded, redriven = [discarding.result()], retrying.result()
            # Whoever came first: the retry's word holds.
            assert redriven in ([Redriven.READY], [Redriven.MISSING])
            assert len(store.fetch([dead.id])) == (redriven == [Redriven.READY])
            assert discarded == [1] or redriven == [Redriven.READY]
            assert q.context.store.drop_queue(QUEUE) == (redriven == [Redriven.READY])
