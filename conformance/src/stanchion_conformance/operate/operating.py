"""Operators' actions on jobs: cancel, retry, replay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stanchion import JobHandle, JobState, Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import DuplicateKey, InvalidInput, JobNotFound
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import Redriven
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of, sizes_of, state


async def awaited(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return the answer of an asynchronous twin, called on the loop."""
    return await call()


ACTS: dict[str, Callable[[Stanchion, Queue, Any], Any]] = {
    "cancel": lambda app, _q, text: app.cancel(text),
    "cancel of a queue": lambda _app, q, text: q.cancel(text),
    "cancel on a loop": lambda _app, q, text: asyncio.run(awaited(lambda: q.acancel(text))),
    "cancel of a handle": lambda app, _q, text: JobHandle(app, text).cancel(),
    "cancel of a handle on a loop": lambda app, _q, text: asyncio.run(awaited(lambda: JobHandle(app, text).acancel())),
    "retry": lambda app, _q, text: app.retry_job(text),
    "retry of a queue": lambda _app, q, text: q.retry(text),
    "replay": lambda app, _q, text: app.replay([text]),
    "replay of a queue": lambda _app, q, text: q.replay([text]),
}


class TestNoIds:
    """Text that is no id is refused, so that a mix-up does not look like a job that is gone."""

    @pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
    def test_are_refused_by_name(
        self, app: Stanchion, q: Queue, store: Store, act: Callable[[Stanchion, Queue, Any], Any]
    ) -> None:
        found = q.push({}).id
        for text in (QUEUE, "", found[:-1], found + "0", found.upper(), f" {found}", found.replace("-", "")):
            with pytest.raises(InvalidInput) as refused:
                act(app, q, text)
            assert repr(text) in str(refused.value)
        assert state(store, found) is JobState.READY

    def test_unknown_ids_are_none(self, app: Stanchion, q: Queue) -> None:
        assert app.cancel(new_id()) is q.cancel(new_id()) is None
        assert app.replay([new_id()]) == q.replay([new_id()]) == []


class TestCancel:
    @pytest.mark.parametrize("delay", [0, 60])
    def test_ends_a_waiting_job_at_once(self, q: Queue, other_q: Queue, clock: StoreClock, delay: int) -> None:
        pushed = q.push({"id": 1}, delay=delay)
        assert other_q.cancel(pushed.id) is JobState.CANCELLED
        clock.advance(61)
        assert q.reserve() == []
        assert q.size().total == 0
        job = q.get(pushed.id)
        assert job is not None
        assert (job.state, job.payload) == (JobState.CANCELLED, {"id": 1})
        assert job.finished_at is not None
        assert q.counts().cancelled == 1

    def test_asks_a_running_job_to_stop(self, q: Queue, other_q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        assert not job.cancelled
        assert other_q.cancel(job.id) is JobState.RUNNING
        assert job.cancelled
        assert q.size().running == 1
        job.rollback(delay=0)
        assert job.state is JobState.CANCELLED
        ended = q.get(job.id)
        assert ended is not None
        assert ended.state is JobState.CANCELLED
        assert q.reserve() == []

    @pytest.mark.parametrize("how", ["error", "release", "lease lost"])
    def test_however_it_comes_back(self, q: Queue, clock: StoreClock, how: str) -> None:
        q.push({})
        (job,) = q.reserve(lease=10)
        q.cancel(job.id)
        match how:
            case "error":
                job.rollback(delay=0, error="interrupted")
            case "release":
                job.release()
            case "lease lost":
                clock.advance(11)
                assert q.reserve() == []
        ended = q.get(job.id)
        assert ended is not None
        assert ended.state is JobState.CANCELLED

    def test_a_running_job_may_still_finish(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        q.cancel(job.id)
        job.commit("done all the same")
        done = q.get(job.id)
        assert done is not None
        assert (done.state, done.result, done.cancelled) == (JobState.DONE, "done all the same", False)

    def test_changes_no_finished_job(self, q: Queue, store: Store) -> None:
        pushed = q.push({})
        q.reserve()[0].commit()
        before = row_of(store, pushed.id)
        assert q.cancel(pushed.id) is JobState.DONE
        assert row_of(store, pushed.id) == before

    def test_of_an_unknown_job_says_so(self, store: Store) -> None:
        job = new_job()
        store.push([job])
        assert store.cancel([new_id(), job.id]) == [None, JobState.CANCELLED]

    @pytest.mark.parametrize("how", ["move", "bury"])
    def test_a_request_does_not_follow_the_job_into_another_queue(self, app: Stanchion, q: Queue, how: str) -> None:
        q.configure(dead_letter="next")
        q.push({})
        (job,) = q.reserve()
        q.cancel(job.id)
        job.move("next") if how == "move" else job.bury()
        (again,) = app.queue("next").reserve()
        assert not again.cancelled
        again.rollback(delay=0)
        assert app.queue("next").size().ready == 1

    def test_a_request_does_not_outlive_the_job(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        q.cancel(job.id)
        job.rollback(delay=0)
        q.retry(job.id)
        (again,) = q.reserve()
        assert not again.cancelled
        again.rollback(delay=0)
        assert q.size().ready == 1


class TestRetry:
    @pytest.mark.parametrize("end", ["bury", "abandon"])
    def test_makes_a_finished_job_ready_under_the_same_id(self, q: Queue, end: str) -> None:
        pushed = q.push({"id": 1}, max_attempts=2, priority=5, tenant="acme")
        q.reserve()[0].rollback(delay=0, error="first")
        getattr(q.reserve()[0], end)("second")
        again = q.retry(pushed.id)
        assert (again.id, again.state, again.attempts, again.failures) == (pushed.id, JobState.READY, 0, 0)
        assert again.finished_at is None
        assert q.history() == []
        (job,) = q.reserve()
        assert (job.attempt, job.payload, job.priority, job.tenant) == (1, {"id": 1}, 5, "acme")
        assert job.errors[0]["error"] == "first"
        job.rollback(delay=0, error="third")
        assert len(q.reserve()) == 1

    def test_of_a_cancelled_job(self, q: Queue) -> None:
        pushed = q.push({}, delay=600)
        q.cancel(pushed.id)
        q.retry(pushed.id)
        assert len(q.reserve()) == 1

    def test_brings_a_scheduled_job_forward(self, q: Queue, store: Store) -> None:
        pushed = q.push({}, max_attempts=2)
        q.reserve()[0].rollback(delay=600, error="once")
        assert q.retry(pushed.id).state is JobState.READY
        assert row_of(store, pushed.id).attempts == 0
        assert q.reserve()[0].attempt == 1

    def test_leaves_a_ready_job_in_its_place(self, q: Queue) -> None:
        first, _second = q.push_many(["first", "second"])
        q.retry(first.id)
        assert [job.payload for job in q.reserve(2)] == ["first", "second"]

    def test_refuses_a_running_job(self, q: Queue, store: Store) -> None:
        q.push({})
        (job,) = q.reserve()
        before = row_of(store, job.id)
        with pytest.raises(InvalidInput, match="running"):
            q.retry(job.id)
        assert row_of(store, job.id) == before

    def test_a_committed_job_never_runs_again(self, q: Queue, store: Store) -> None:
        pushed = q.push({})
        q.reserve()[0].commit("kept")
        assert store.retry([pushed.id]) != [Redriven.READY]
        assert state(store, pushed.id) is JobState.DONE
        assert q.reserve() == []

    def test_of_an_unknown_job_says_so(self, q: Queue) -> None:
        with pytest.raises(JobNotFound):
            q.retry(new_id())

    def test_takes_the_key_again(self, q: Queue) -> None:
        pushed = q.push(1, key="k")
        q.reserve()[0].bury()
        q.retry(pushed.id)
        assert q.push(2, key="k").id == pushed.id

    def test_refuses_when_the_key_is_taken(self, q: Queue, store: Store) -> None:
        pushed = q.push(1, key="k")
        q.reserve()[0].bury()
        q.push(2, key="k")
        with pytest.raises(DuplicateKey):
            q.retry(pushed.id)
        assert state(store, pushed.id) is JobState.DEAD
        assert q.size().total == 1

    def test_of_a_done_job_says_what_to_do(self, q: Queue, store: Store) -> None:
        done = q.push(1)
        q.reserve()[0].commit()
        assert store.retry([done.id]) == [Redriven.DONE]
        with pytest.raises(InvalidInput, match="replay"):
            q.retry(done.id)

    def test_in_a_batch(self, store: Store) -> None:
        jobs = [new_job(str(number)) for number in range(3)]
        store.push(jobs)
        store.cancel([jobs[1].id, jobs[2].id])
        (running,) = claim(store)
        verdicts = store.retry([jobs[2].id, running.id, new_id(), jobs[1].id])
        assert verdicts == [Redriven.READY, Redriven.RUNNING, Redriven.MISSING, Redriven.READY]
        assert sizes_of(store, QUEUE).ready == 2


class TestReplay:
    @pytest.mark.parametrize("end", ["commit", "bury", "abandon"])
    def test_enqueues_a_copy_that_names_its_origin(self, q: Queue, end: str) -> None:
        pushed = q.push({"id": 1}, priority=5, tenant="acme", headers={"trace": "t"}, max_attempts=3, timeout=9)
        getattr(q.reserve()[0], end)()
        before = q.get(pushed.id)
        (copy,) = q.replay([pushed.id])
        assert copy.id != pushed.id
        assert copy.origin == pushed.id
        assert (copy.state, copy.attempts, copy.errors, copy.result) == (JobState.READY, 0, [], None)
        (job,) = q.reserve()
        assert job.id == copy.id
        assert (job.payload, job.priority, job.tenant, job.headers) == ({"id": 1}, 5, "acme", {"trace": "t"})
        assert (job.max_attempts, job.timeout, job.attempt, job.origin) == (3, 9, 1, pushed.id)
        after = q.get(pushed.id)
        assert before is not None
        assert after is not None
        assert (after.state, after.finished_at) == (before.state, before.finished_at)
        assert q.counts().pushed == 2

    def test_as_often_as_one_likes(self, q: Queue) -> None:
        pushed = q.push({})
        q.pop()
        for _ in range(3):
            q.replay([pushed.id])
        assert q.size().ready == 3

    def test_repeated_under_the_same_ids_is_one_replay(self, store: Store) -> None:
        job = new_job()
        store.push([job])
        store.cancel([job.id])
        copy = [new_id()]
        assert push_copies(store, [job.id], copy) == push_copies(store, [job.id], copy)
        assert sizes_of(store, QUEUE).total == 1

    def test_leaves_out_live_and_unknown_jobs(self, q: Queue, store: Store) -> None:
        live, done = q.push_many([1, 2])
        store.cancel([done.id])
        replayed = push_copies(store, [live.id, new_id(), done.id], [new_id() for _ in range(3)])
        assert [copy is not None for copy in replayed] == [False, False, True]
        assert q.size().total == 2

    def test_keeps_the_key_unique(self, q: Queue) -> None:
        pushed = q.push(1, key="k")
        q.pop()
        (copy,) = q.replay([pushed.id])
        assert q.push(2, key="k").id == copy.id
        q.replay([pushed.id])
        assert q.size().total == 1

    def test_across_queues(self, app: Stanchion, q: Queue) -> None:
        pushed = app.queue("other").push({})
        app.queue("other").pop()
        app.replay([pushed.id])
        assert q.size().total == 0
        assert app.queue("other").size().ready == 1
