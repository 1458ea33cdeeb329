"""Checkpoints: partial work that an attempt leaves for the next one, and replays that start from the beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion import Job, JobState, Queue, RetryAfter, Snooze, Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput, LeaseLost
from stanchion.jobs.reservation import Reservation
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion_conformance.harness import LONG_LEASE, QUEUE, StoreClock, claim, new_job, row_of

WAYS: dict[str, Callable[[Reservation, Any], None]] = {
    "rollback": lambda job, payload: job.rollback(delay=0, payload=payload),
    "failure": lambda job, payload: job.rollback(0, "boom", payload=payload),
    "release": lambda job, payload: job.release(payload=payload),
}


class TestCheckpoints:
    @pytest.mark.parametrize("way", WAYS)
    def test_the_next_attempt_gets_it(self, q: Queue, other_q: Queue, way: str) -> None:
        pushed = q.push({"rows": [1, 2, 3]}, tenant="acme", headers={"trace": "t"})
        (job,) = q.reserve()
        assert job.checkpoint is None
        WAYS[way](job, {"rows": [3], "done": 2})
        (again,) = other_q.reserve()
        assert (again.id, again.payload, again.checkpoint) == (pushed.id, {"rows": [3], "done": 2}, again.payload)
        assert (again.tenant, again.headers) == ("acme", {"trace": "t"})
        again.rollback(delay=0)
        assert q.reserve()[0].payload == {"rows": [3], "done": 2}

    def test_each_replaces_the_one_before(self, q: Queue, store: Store) -> None:
        q.push("all")
        for left in ("half", None, [0], "all"):
            q.reserve()[0].rollback(delay=0, payload=left)
        (job,) = q.reserve()
        assert (job.payload, row_of(store, job.id).arrival_payload) == ("all", '"all"')

    def test_outlives_a_lost_lease(self, q: Queue, clock: StoreClock) -> None:
        q.push(1)
        q.reserve()[0].rollback(delay=0, payload=2)
        q.reserve(lease=10)
        clock.advance(11)
        context_of(q).store.recover()
        assert q.reserve()[0].payload == 2

    @pytest.mark.parametrize("way", WAYS)
    def test_of_a_lost_reservation_changes_nothing(self, q: Queue, clock: StoreClock, way: str) -> None:
        q.push(1)
        (late,) = q.reserve(lease=10)
        clock.advance(11)
        (job,) = q.reserve(lease=LONG_LEASE)
        with pytest.raises(LeaseLost):
            WAYS[way](late, "late")
        job.rollback(delay=0)
        assert q.reserve()[0].payload == 1

    def test_of_the_last_attempt_is_kept_for_a_retry(self, q: Queue) -> None:
        pushed = q.push({"n": 0}, max_attempts=1)
        q.reserve()[0].rollback(0, "boom", payload={"n": 1})
        dead = q.get(pushed.id)
        assert dead is not None
        assert (dead.state, dead.payload) == (JobState.DEAD, {"n": 1})
        q.retry(pushed.id)
        (job,) = q.reserve()
        assert (job.payload, job.checkpoint) == ({"n": 1}, {"n": 1})

    def test_goes_along_to_the_dead_letters_and_back(self, q: Queue, app: Stanchion) -> None:
        q.configure(dead_letter="dead")
        pushed = q.push({"n": 0}, max_attempts=1)
        q.reserve()[0].rollback(0, "boom", payload={"n": 1})
        letter = app.queue("dead").get(pushed.id)
        assert letter is not None
        assert letter.payload == {"n": 1}
        app.queue("dead").retry(pushed.id)
        (job,) = q.reserve()
        assert job.payload == {"n": 1}
        job.commit()
        (copy,) = q.replay([pushed.id])
        assert (copy.payload, copy.checkpoint) == ({"n": 0}, None)

    def test_of_a_cancelled_job_is_kept(self, q: Queue) -> None:
        pushed = q.push(1)
        (job,) = q.reserve()
        q.cancel(pushed.id)
        job.rollback(delay=0, payload=2)
        ended = q.get(pushed.id)
        assert ended is not None
        assert (ended.state, ended.payload) == (JobState.CANCELLED, 2)

    def test_many_by_one_call(self, app: Stanchion, q: Queue) -> None:
        q.push_many(range(20))
        jobs = q.reserve(20)
        ended = [
            job.rolled_back(0, payload=f"left by {job.payload}") if n % 2 else job.committed("r", payload=-n)
            for n, job in enumerate(jobs)
        ]
        app.settle(ended)
        assert [job.payload for job in q.reserve(20)] == [f"left by {n}" for n in range(1, 20, 2)]
        done = [row_of(app.store, job.id) for job in jobs[::2]]
        assert [(row.payload, row.arrival_payload) for row in done] == [(str(-n), str(n)) for n in range(0, 20, 2)]

    def test_by_another_process(self, q: Queue, other_app: Stanchion) -> None:
        q.push({"n": 0})
        (job,) = q.reserve()
        Reservation.from_dict(other_app, job.to_dict()).rollback(0, payload={"n": 1})
        again = Reservation.from_dict(other_app, q.reserve()[0].to_dict())
        assert (again.checkpoint, again.payload) == ({"n": 1}, {"n": 1})

    def test_in_a_batch(self, q: Queue) -> None:
        q.push_many(range(3))
        with q.batch(3) as jobs:
            jobs[1].rollback(0, payload="half")
        (left,) = q.reserve(3)
        assert (left.payload, q.counts().committed) == ("half", 2)

    def test_is_applied_once_if_a_reply_is_lost(self, store: Store) -> None:
        store.push([new_job("1")])
        (row,) = claim(store)
        left = Rollback(row.lease, 0, payload="2")
        assert store.settle([left]) == [JobState.READY]
        assert store.settle([left], repeat=True) == [JobState.READY]
        assert store.settle([left]) == [None]
        assert (row_of(store, row.id).payload, row_of(store, row.id).arrival_payload) == ("2", "1")

    @pytest.mark.parametrize("payload", [object(), {1, 2}, {"at": float("nan")}, "x" * (1 << 20)])
    @pytest.mark.parametrize("way", WAYS)
    def test_what_can_not_be_stored_is_refused_and_the_job_kept(self, q: Queue, way: str, payload: Any) -> None:
        q.push(1)
        (job,) = q.reserve()
        with pytest.raises(InvalidInput, match="payload"):
            WAYS[way](job, payload)
        job.commit()

    def test_a_large_one(self, q: Queue) -> None:
        most = "é" * 500_000
        q.push(most)
        q.reserve()[0].rollback(0, payload=most[:-1])
        (job,) = q.reserve()
        assert job.payload == most[:-1]
        job.commit(payload="small")
        assert q.replay([job.id])[0].payload == most

    def test_work_that_replaces_the_job_s_own_starts_without(self, q: Queue) -> None:
        q.push("old", key="k")
        q.reserve()[0].rollback(0, payload="half of the old")
        q.push("new", key="k", on_duplicate="replace")
        (job,) = q.reserve()
        assert (job.payload, job.checkpoint) == ("new", None)
        job.commit(payload="new, done")
        assert q.replay([job.id])[0].payload == "new"


class TestReplayOfWhatHasChanged:
    def test_starts_from_what_was_pushed(self, q: Queue, store: Store) -> None:
        pushed = q.push({"step": 0})
        for step in (1, 2):
            q.reserve()[0].rollback(0, payload={"step": step})
        q.reserve()[0].commit("r", payload={"step": 3})
        done = q.get(pushed.id)
        assert done is not None
        assert (done.payload, done.checkpoint, done.result) == ({"step": 3}, {"step": 3}, "r")
        (copy,) = q.replay([pushed.id])
        assert (copy.payload, copy.checkpoint, copy.origin) == ({"step": 0}, None, pushed.id)
        assert row_of(store, copy.id).arrival_payload is None

    def test_of_commits_of_each_kind(self, app: Stanchion, store: Store) -> None:
        kinds: list[dict[str, Any]] = [{}, {"order_key": "o"}, {"limits": ["s"]}, {"key": "k"}]
        app.semaphore("s", capacity=1)
        q = app.queue(QUEUE)
        ids = [q.push("pushed", **options).id for options in kinds]
        for _ in kinds:
            q.reserve()[0].commit(payload="committed")
        rows = [row_of(store, one) for one in ids]
        assert {(row.payload, row.arrival_payload) for row in rows} == {('"committed"', '"pushed"')}
        assert [copy.payload for copy in q.replay(ids)] == ["pushed"] * len(kinds)

    def test_a_commit_that_changes_nothing_keeps_nothing(self, store: Store) -> None:
        store.push([new_job("1"), new_job("1")])
        first, second = claim(store, 2)
        store.settle([Commit(first.lease), Commit(second.lease, "3")])
        assert {row_of(store, row.id).arrival_payload for row in (first, second)} == {None}

    def test_of_a_moved_job_starts_from_what_came_to_its_queue(self, app: Stanchion, q: Queue) -> None:
        pushed = q.push("raw")
        q.reserve()[0].rollback(0, payload="half raw")
        q.reserve()[0].move("next", payload="clean")
        app.queue("next").reserve()[0].commit(payload="done")
        (copy,) = app.queue("next").replay([pushed.id])
        assert copy.payload == "clean"


class TestCheckpointsOfTasks:
    @pytest.mark.parametrize("outcome", [Snooze, RetryAfter])
    def test_stand_beside_the_arguments(self, app: Stanchion, outcome: Callable[..., Exception]) -> None:
        seen: list[Any] = []

        @app.task
        def count(first: int, job: Job, *, last: int) -> Any:
            seen.append((first, job.payload, job.checkpoint))
            reached = first if job.checkpoint is None else job.checkpoint["reached"] + 1
            return outcome(0, payload={"reached": reached}) if reached < last else "done"

        handle = count.enqueue(7, last=9)
        app.drain()
        job = handle.job()
        given = {"args": [7], "kwargs": {"last": 9}}
        assert seen == [(7, given, None), (7, given, {"reached": 7}), (7, given, {"reached": 8})]
        assert (job.result, job.payload, job.checkpoint) == ("done", given, {"reached": 8})
        (copy,) = app.queue(job.queue).replay([job.id])
        assert (copy.payload, copy.checkpoint) == (given, None)
        app.drain()
        assert len(seen) == 6

    def test_raised_by_an_async_one(self, app: Stanchion) -> None:
        @app.task
        async def twice(job: Job) -> Any:
            if job.checkpoint is None:
                raise Snooze(0, payload=[])
            return job.attempt

        handle = twice.enqueue()
        app.drain()
        assert handle.job().result == 1

    def test_by_the_job_itself(self, app: Stanchion) -> None:
        @app.task
        def steps(n: int, job: Job) -> None:
            assert isinstance(job, Reservation)
            if job.checkpoint is None:
                job.rollback(0, payload=n)
            else:
                job.commit(payload=job.checkpoint + 1)

        handle = steps.enqueue(3)  # type: ignore[call-arg]
        app.drain()
        job = handle.job()
        assert (job.payload, job.checkpoint) == ({"args": [3]}, 4)
        app.queue(job.queue).replay([job.id])
        app.drain()
        assert [done.checkpoint for done in app.queue(job.queue).history()] == [4, 4]

    def test_that_can_not_be_stored_end_the_job(self, app: Stanchion) -> None:
        @app.task
        def wrong() -> Snooze:
            return Snooze(0, payload=object())

        handle = wrong.enqueue()
        app.drain()
        assert handle.state is JobState.DEAD
        assert "payload" in handle.job().errors[-1]["error"]

    def test_of_a_station_are_the_item(self, app: Stanchion) -> None:
        etl = app.pipeline("etl")

        @etl.station("raw", to="done")
        def raw(item: dict[str, int], job: Job) -> Any:
            if item["left"]:
                return Snooze(0, payload={"left": item["left"] - 1})
            return {"attempts": job.attempt}

        etl.station("done")(lambda item: item)
        item = etl.push({"left": 3})
        etl.drain()
        found = app.get(item.id)
        assert found is not None
        assert found.result == {"attempts": 1}
