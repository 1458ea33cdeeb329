"""Pushes: stored fields, repeats, unique keys, batches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Stanchion
from stanchion.context import context_of
from stanchion.errors import DuplicateKey
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit
from stanchion.waits.pop import pop
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    about,
    claim,
    counts_of,
    new_job,
    payloads,
    row_of,
    seconds_until,
    sizes_of,
    state,
)

PAYLOADS: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    1.5,
    "",
    "\x00 null byte",
    "ünïcödé 🚧 'quoted' \"twice\" %s :name $1 \\",
    [],
    {},
    {"nested": [{"list": [1, [2, [3]]]}, None]},
    "x" * 100_000,
]


class TestPush:
    @pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: repr(payload)[:20])
    def test_any_json_value_comes_out_as_it_went_in(self, q: Queue, payload: Any) -> None:
        q.push(payload)
        (job,) = q.reserve()
        assert job.payload == payload
        assert type(job.payload) is type(payload)
        job.commit(payload)
        done = q.get(job.id)
        assert done is not None
        assert (done.payload, done.result) == (payload, payload)

    def test_everything_asked_for_is_stored(self, q: Queue, store: Store) -> None:
        options: dict[str, Any] = {
            "priority": -7,
            "headers": {"trace": ["t", 1]},
            "tenant": "acme",
            "key": "u42",
            "max_attempts": 3,
            "timeout": 12.5,
        }
        pushed = q.push({"id": 1}, **options)
        job = q.get(pushed.id)
        assert job is not None
        for seen in (pushed, job):
            assert {name: getattr(seen, name) for name in options} == options
            assert (seen.queue, seen.state, seen.payload) == (QUEUE, JobState.READY, {"id": 1})
            assert (seen.attempts, seen.failures, seen.errors, seen.result) == (0, 0, [], None)
            assert (seen.lane, seen.worker, seen.task, seen.flow, seen.origin) == (None, None, None, None, None)
        assert pushed.enqueued_at == job.enqueued_at
        assert pushed.run_at == job.run_at
        assert seconds_until(store, row_of(store, job.id).enqueued_at) == about(0)

    def test_a_collection_gives_its_jobs_back_in_order(self, q: Queue) -> None:
        jobs = q.push_many([0, Push(1, delay=60), Push(2, priority=5)])
        assert payloads(jobs) == [0, 1, 2]
        assert [job.state for job in jobs] == [JobState.READY, JobState.SCHEDULED, JobState.READY]
        assert sorted(job.id for job in jobs) == [job.id for job in jobs]
        assert q.size().total == 3

    def test_an_iterator_is_streamed(self, q: Queue) -> None:
        assert q.push_many(number for number in range(2500)) == 2500
        assert q.size().ready == 2500

    def test_nothing(self, q: Queue) -> None:
        assert q.push_many([]) == []
        assert q.push_many(iter([])) == 0

    def test_is_seen_by_other_processes(self, q: Queue, other_q: Queue) -> None:
        pushed = q.push({"id": 1})
        (job,) = other_q.reserve()
        assert job.id == pushed.id


class TestRepeats:
    """A push whose reply was lost is repeated with the same ids."""

    def test_of_a_live_job_is_no_job(self, store: Store) -> None:
        jobs = [new_job("1"), new_job("2", delay=60.0)]
        first = store.push(jobs)
        assert store.push(jobs) == first
        assert sizes_of(store, QUEUE).total == 2
        assert counts_of(store, QUEUE).pushed == 2

    def test_changes_nothing(self, store: Store) -> None:
        job = new_job("1")
        store.push([job])
        before = row_of(store, job.id)
        store.push([job._replace(payload="2", priority=9, delay=60.0)])
        assert row_of(store, job.id) == before

    def test_of_a_running_job_is_no_job(self, store: Store) -> None:
        job = new_job()
        store.push([job])
        (row,) = claim(store)
        store.push([job])
        assert claim(store) == []
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]

    @pytest.mark.parametrize("key", [None, "k"])
    def test_of_a_finished_job_is_no_job(self, store: Store, key: str | None) -> None:
        job = new_job(key=key)
        (pushed,) = store.push([job])
        (row,) = claim(store)
        store.settle([Commit(row.lease, result="1")])
        (again,) = store.push([job])
        assert (again.id, again.enqueued_at, again.duplicate) == (job.id, pushed.enqueued_at, False)
        assert sizes_of(store, QUEUE).total == 0
        assert claim(store) == []
        assert row_of(store, job.id).result == "1"
        assert counts_of(store, QUEUE).pushed == 1

    def test_of_a_popped_job_is_no_job(self, store: Store) -> None:
        job = new_job()
        store.push([job])
        assert len(pop(store, Claim(QUEUE, 1, "token")).rows) == 1
        store.push([job])
        assert sizes_of(store, QUEUE).total == 0

    def test_of_a_moved_job_is_no_job(self, q: Queue, store: Store) -> None:
        job = new_job()
        store.push([job])
        q.reserve()[0].move("next")
        store.push([job])
        assert sizes_of(store, QUEUE).total == 0
        assert sizes_of(store, "next").total == 1

    def test_of_part_of_a_batch_adds_the_rest(self, store: Store) -> None:
        old, new = new_job(), new_job()
        store.push([old])
        assert [pushed.id for pushed in store.push([old, new])] == [old.id, new.id]
        assert sizes_of(store, QUEUE).total == 2

    def test_within_a_batch(self, store: Store) -> None:
        job = new_job()
        assert len(store.push([job, job])) == 2
        assert sizes_of(store, QUEUE).total == 1
        assert counts_of(store, QUEUE).pushed == 1

    def test_of_a_keyed_job_that_asks_to_be_told(self, store: Store) -> None:
        job = new_job(key="k", on_duplicate="raise")
        store.push([job])
        (again,) = store.push([job])
        assert (again.id, again.duplicate) == (job.id, False)


class TestUniqueKeys:
    def test_a_duplicate_gets_the_job_that_has_the_key(self, q: Queue) -> None:
        first = q.push(1, key="k")
        again = q.push(2, key="k")
        assert (first.duplicate, again.duplicate) == (False, True)
        assert (again.id, again.payload) == (first.id, 1)
        assert q.size().total == 1
        assert q.counts().pushed == 1

    def test_may_be_told(self, q: Queue) -> None:
        first = q.push(1, key="k")
        with pytest.raises(DuplicateKey) as caught:
            q.push(2, key="k", on_duplicate="raise")
        assert caught.value.job_id == first.id
        assert q.size().total == 1

    def test_then_none_of_the_batch_is_stored(self, q: Queue) -> None:
        q.push(1, key="k")
        with pytest.raises(DuplicateKey):
            q.push_many([2, Push(3, key="new"), Push(4, key="k", on_duplicate="raise"), 5])
        assert q.size().total == 1
        assert not q.push(6, key="new").duplicate

    def test_may_replace_what_is_to_be_done_and_when(self, q: Queue, store: Store) -> None:
        first = q.push(1, key="k", delay=60, priority=1, headers={"v": 1})
        again = q.push(2, key="k", delay=600, priority=2, headers={"v": 2}, on_duplicate="replace")
        assert (again.id, again.duplicate) == (first.id, True)
        job = q.get(first.id)
        assert job is not None
        for seen in (again, job):
            assert (seen.payload, seen.priority, seen.headers, seen.key) == (2, 2, {"v": 2}, "k")
        assert seconds_until(store, row_of(store, job.id).run_at) == about(600)
        assert job.enqueued_at == first.enqueued_at
        assert q.size().total == 1

    def test_replace_can_bring_a_job_forward_and_put_it_off(self, q: Queue, clock: StoreClock) -> None:
        q.push(1, key="k", delay=600)
        q.push(2, key="k", on_duplicate="replace")
        assert payloads(q.reserve()) == [2]
        q.push(3, key="other")
        q.push(4, key="other", delay=60, on_duplicate="replace")
        assert q.reserve() == []
        clock.advance(61)
        assert [job.payload for job in q.reserve(5) if job.key == "other"] == [4]

    def test_replace_brings_its_own_task(self, app: Stanchion) -> None:
        app.using("first", key="k", queue=QUEUE).enqueue(1)
        handle = app.using("second", key="k", queue=QUEUE, on_duplicate="replace").enqueue(2)
        job = handle.job()
        assert (job.task, job.payload) == ("second", {"args": [2]})

    def test_replace_leaves_a_running_job_alone(self, q: Queue, store: Store) -> None:
        q.push(1, key="k")
        (job,) = q.reserve()
        before = row_of(store, job.id)
        again = q.push(2, key="k", delay=60, on_duplicate="replace")
        assert (again.id, again.duplicate, again.payload, again.state) == (job.id, True, 1, JobState.RUNNING)
        assert row_of(store, job.id) == before
        job.commit()

    def test_replace_of_nothing_is_a_push(self, q: Queue) -> None:
        pushed = q.push(1, key="k", on_duplicate="replace")
        assert not pushed.duplicate
        assert q.counts().pushed == 1

    @pytest.mark.parametrize("end", ["commit", "bury", "abandon", "cancel", "pop"])
    def test_is_free_when_the_job_has_finished(self, q: Queue, end: str) -> None:
        first = q.push(1, key="k")
        match end:
            case "cancel":
                q.cancel(first.id)
            case "pop":
                q.pop()
            case _:
                getattr(q.reserve()[0], end)()
        second = q.push(2, key="k")
        assert not second.duplicate
        assert second.id != first.id

    @pytest.mark.parametrize("where", ["scheduled", "running", "given back", "lease lost"])
    def test_is_taken_as_long_as_the_job_lives(self, q: Queue, clock: StoreClock, where: str) -> None:
        first = q.push(1, key="k", delay=60 if where == "scheduled" else 0)
        if where != "scheduled":
            (job,) = q.reserve(lease=10)
            if where == "given back":
                job.rollback(delay=60)
            elif where == "lease lost":
                clock.advance(11)
                context_of(q).store.recover()
        again = q.push(2, key="k")
        assert (again.id, again.duplicate) == (first.id, True)

    def test_are_those_of_one_queue(self, app: Stanchion, q: Queue) -> None:
        q.push(1, key="k")
        assert not app.queue("other").push(2, key="k").duplicate

    def test_hold_within_a_batch(self, q: Queue) -> None:
        jobs = q.push_many([Push(1, key="k"), Push(2, key="k"), Push(3, key="k", on_duplicate="replace")])
        assert len({job.id for job in jobs}) == 1
        assert [job.duplicate for job in jobs] == [False, True, True]
        assert payloads(q.reserve(5)) == [3]

    def test_told_within_a_batch(self, q: Queue) -> None:
        with pytest.raises(DuplicateKey):
            q.push_many([Push(1, key="k"), Push(2, key="k", on_duplicate="raise")])
        assert q.size().total == 0

    def test_jobs_without_one_are_never_duplicates(self, q: Queue) -> None:
        assert not any(job.duplicate for job in q.push_many([1, 1, 1]))
        assert q.size().total == 3


class TestPop:
    def test_is_gone_when_handed_out(self, q: Queue, store: Store, clock: StoreClock) -> None:
        pushed = q.push({"id": 1})
        job = q.pop()
        assert job is not None
        assert (job.id, job.payload, job.state, job.attempts) == (pushed.id, {"id": 1}, JobState.DONE, 1)
        assert state(store, job.id) is JobState.DONE
        assert q.size().total == 0
        clock.advance(3600)
        assert store.recover() == []
        assert q.pop() is None
        assert q.reserve() == []

    def test_of_an_empty_queue_is_none(self, q: Queue) -> None:
        assert q.pop() is None

    def test_leaves_reserved_and_scheduled_jobs_alone(self, q: Queue) -> None:
        q.push_many([1, Push(2, delay=timedelta(minutes=1))])
        assert len(q.reserve()) == 1
        assert q.pop() is None

    def test_hands_out_batches(self, store: Store) -> None:
        store.push([new_job(str(number)) for number in range(5)])
        assert [row.payload for row in pop(store, Claim(QUEUE, 3, "token")).rows] == ["0", "1", "2"]
        assert [row.payload for row in pop(store, Claim(QUEUE, 3, "token")).rows] == ["3", "4"]


class TestLargeBatches:
    def test_of_large_payloads_are_stored_in_portions(self, q: Queue) -> None:
        large = "x" * (900 * 1024)
        pushed = q.push_many([large] * 20)
        assert [job.payload for job in q.reserve(100)] == [large] * 20
        assert len({job.id for job in pushed}) == 20
