"""Deletion: a job is deleted only if it is unchanged since it was read, finished or queued."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from stanchion import Queue
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRef, JobRow, JobState, Redriven
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.stores.records.queues import Sizes
from stanchion_conformance.harness import (
    QUEUE,
    claim,
    counts_of,
    due_of,
    find_jobs,
    new_job,
    row_of,
    sizes_of,
    state,
)
from stanchion_conformance.operate.transferring import finished, queued, some_rows

MANY = 2_500
ROUNDS = 10


def bury(q: Queue, count: int = 1) -> list[JobRow]:
    """Push jobs that end as dead; return them as they are in history."""
    ids = [job.id for job in q.push_many(list(range(count)))]
    store = context_of(q).store
    while rows := claim(store, 500, queue=q.name):
        store.settle([Bury(row.lease, "no money") for row in rows])
    found = store.fetch(ids)
    return [found[job_id] for job_id in ids]


def refs(rows: Iterable[JobRow]) -> list[JobRef]:
    """Return the references to these jobs as they were read."""
    return [row.ref for row in rows]


class TestDeleteFinished:
    def test_deletes_the_named_and_no_others(self, q: Queue, other_store: Store) -> None:
        first, second, third = bury(q, 3)
        before = q.counts()
        assert other_store.delete(refs([first, third, first])) == [True, True, True]
        assert list(other_store.fetch([first.id, second.id, third.id])) == [second.id]
        assert [job.id for job in q.history()] == [second.id]
        assert q.counts() == before
        other_store.maintain()
        assert q.counts() == before

    def test_none_and_unknown_ones(self, store: Store) -> None:
        assert store.delete([]) == []
        assert store.delete([JobRef(new_id(), store.now()), JobRef("no id", store.now())]) == [False, False]

    def test_a_repeat_deletes_nothing(self, q: Queue, store: Store) -> None:
        (dead,) = bury(q)
        assert store.delete([dead.ref]) == [True]
        assert store.delete([dead.ref]) == [False]

    def test_live_jobs_stay(self, q: Queue, store: Store) -> None:
        pushed, scheduled = q.push(1), q.push(2, delay=60)
        running = q.reserve()[0]
        now = store.now()
        assert running.id == pushed.id
        assert store.delete([JobRef(pushed.id, now), JobRef(scheduled.id, now)]) == [False, False]
        assert {row.state for row in store.fetch([pushed.id, scheduled.id]).values()} == {"running", "queued"}

    def test_one_that_ended_at_another_moment_stays(self, q: Queue, store: Store) -> None:
        (dead,) = bury(q)
        assert dead.finished_at is not None
        others = [JobRef(dead.id, dead.finished_at + more) for more in (-1, 1)]
        assert store.delete([*others, JobRef(dead.id)]) == [False, False, False]
        assert row_of(store, dead.id) == dead
        assert store.delete([*others, dead.ref]) == [False, False, True]

    def test_one_that_was_re_driven_stays(self, q: Queue, store: Store) -> None:
        (dead,) = bury(q)
        assert store.retry([dead.id]) == [Redriven.READY]
        assert store.delete([dead.ref]) == [False]
        assert state(store, dead.id) is JobState.READY
        q.reserve()[0].commit("paid")
        assert store.delete([dead.ref]) == [False]
        again = row_of(store, dead.id)
        assert again.state == JobState.DONE
        assert store.delete([again.ref]) == [True]
        assert store.fetch([dead.id]) == {}

    def test_of_several_queues(self, q: Queue, store: Store) -> None:
        rows = [*bury(q, 2), *bury(app_of(context_of(q)).queue("other"), 2)]
        assert store.delete(refs(rows)) == [True] * 4
        assert store.fetch([row.id for row in rows]) == {}

    def test_many(self, q: Queue, store: Store) -> None:
        rows = bury(q, MANY)
        assert store.delete(refs(rows)) == [True] * MANY
        assert q.history() == []

    def test_against_a_retry(self, q: Queue, store: Store, other_store: Store) -> None:
        for _ in range(ROUNDS):
            (dead,) = bury(q)
            with ThreadPoolExecutor(2) as pool:
                deleting = pool.submit(store.delete, [dead.ref])
                retrying = pool.submit(other_store.retry, [dead.id])
                deleted, redriven = deleting.result(), retrying.result()
            # Whichever came first, the retry wins.
            assert redriven in ([Redriven.READY], [Redriven.MISSING])
            assert len(store.fetch([dead.id])) == (redriven == [Redriven.READY])
            assert deleted == [True] or redriven == [Redriven.READY]
            assert context_of(q).store.drop_queue(QUEUE) == (redriven == [Redriven.READY])

    def test_those_that_had_slots_and_belonged_to_a_flow(self, store: Store) -> None:
        rows = [
            finished(store, flow_root=new_id(), flow_node=new_id(), flow_index=0, order_key="k"),
            finished(store, order_key="k"),
        ]
        store.adopt(rows)
        assert store.delete(refs(rows)) == [True, True]
        assert store.fetch([row.id for row in rows]) == {}


class TestDeleteQueued:
    def test_leaves_running_jobs(self, store: Store) -> None:
        store.push([new_job(), new_job()])
        (running,) = claim(store)
        (ready,) = find_jobs(store, states=(JobState.READY,))
        assert store.delete([JobRef(running.id), JobRef(ready.id)]) == [False, True]
        assert store.settle([Commit(running.lease)]) == [JobState.DONE]

    def test_leaves_jobs_that_have_ended(self, store: Store) -> None:
        store.push([new_job()])
        (running,) = claim(store)
        store.settle([Commit(running.lease)])
        assert store.delete([JobRef(running.id)]) == [False]
        assert state(store, running.id) is JobState.DONE

    def test_tells_only_of_what_it_deleted(self, store: Store) -> None:
        row = queued(store)
        store.adopt([row])
        assert store.delete([row.ref, row.ref, JobRef(new_id()), JobRef("no id")]) == [True, True, False, False]
        assert store.delete([row.ref]) == [False]

    def test_of_every_queue(self, store: Store) -> None:
        rows = [queued(store), queued(store, queue="other")]
        store.adopt(rows)
        assert store.delete(refs(rows)) == [True, True]
        assert find_jobs(store) == []

    def test_of_a_job_that_was_given_back(self, store: Store) -> None:
        store.push([new_job(key="k")])
        (job,) = claim(store)
        store.settle([Rollback(job.lease, 60.0, error="later")])
        assert store.delete([JobRef(job.id)]) == [True]
        assert store.settle([Commit(job.lease)]) == [None]

    def test_counts_nothing_and_keeps_the_queue(self, store: Store) -> None:
        store.push([new_job(), new_job()])
        (job,) = claim(store)
        store.settle([Commit(job.lease)])
        before = counts_of(store, QUEUE), store.queues()
        assert store.delete(refs(find_jobs(store, queue=QUEUE))) == [True, True]
        store.maintain()
        assert (counts_of(store, QUEUE), store.queues()) == before

    def test_of_many(self, store: Store) -> None:
        rows = [queued(store) for _ in range(2_000)]
        store.adopt(rows)
        assert store.delete(refs(rows)) == [True] * 2_000
        assert sizes_of(store, QUEUE).total == 0

    def test_against_a_claim(self, store: Store, other_store: Store) -> None:
        for _ in range(ROUNDS):
            job = new_job()
            store.push([job])
            with ThreadPoolExecutor(2) as pool:
                deleting = pool.submit(store.delete, [JobRef(job.id)])
                claiming = pool.submit(claim, other_store)
                (deleted,), claimed = deleting.result(), claiming.result()
            assert [row.id for row in claimed] == ([] if deleted else [job.id])
            assert len(store.fetch([job.id])) == (not deleted)
            store.drop_queue(QUEUE)


class TestDeleteTogether:
    def test_queued_and_finished_jobs(self, store: Store, other_store: Store) -> None:
        rows = list(some_rows(store).values())
        store.adopt(rows)
        assert store.delete(refs(rows)) == [True] * len(rows)
        assert other_store.fetch([row.id for row in rows]) == {}
        assert find_jobs(other_store) == []
        assert sizes_of(other_store, QUEUE) == Sizes()
        assert due_of(other_store, QUEUE) is None
        assert claim(other_store, 10) == []

    def test_each_answer_is_for_the_job_at_its_place(self, store: Store) -> None:
        there = [queued(store), finished(store), queued(store, queue="other"), finished(store, queue="other")]
        store.adopt(there)
        gone = [queued(store), finished(store)]
        named = [row for pair in zip(there, gone * 2, strict=True) for row in pair]
        assert store.delete(refs(named)) == [True, False] * 4

    def test_what_was_deleted_can_be_adopted_again(self, store: Store) -> None:
        rows = list(some_rows(store).values())
        store.adopt(rows)
        store.delete(refs(rows))
        assert store.adopt(rows) == [True] * len(rows)
        assert store.fetch([row.id for row in rows]) == {row.id: row for row in rows}
