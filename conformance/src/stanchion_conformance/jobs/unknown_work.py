"""A job whose task or station the code does not know is put off: a newer release may know it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from stanchion import Job, JobState, Queue, Retry, Snooze, Stanchion
from stanchion.errors import JobFailed
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Rollback
from stanchion_conformance.harness import QUEUE, SLACK, StoreClock, claim, new_job, row_of, seconds_until, state, worker

WAIT = 600.0
"""The longest delay, in seconds."""


class TestPutOff:
    """The outcome: a rollback that refunds the attempt and names the reason."""

    def put_off(self, store: Store, why: str = "UnknownTask: t", delay: float = 5.0) -> None:
        (row,) = claim(store)
        assert store.settle([Rollback(row.lease, delay, why, refund=True)]) == [JobState.SCHEDULED]

    def test_counts_neither_an_attempt_nor_a_failure(self, store: Store, clock: StoreClock, q: Queue) -> None:
        job = new_job(max_attempts=1)
        store.push([job])
        for _ in range(3):
            self.put_off(store)
            clock.advance(6)
        row = row_of(store, job.id)
        assert (row.attempts, row.failures, row.state) == (0, 0, "queued")
        assert (q.counts().rolled_back, q.counts().buried) == (3, 0)

    def test_is_one_entry_that_grows(self, store: Store, other_store: Store, clock: StoreClock, q: Queue) -> None:
        job = new_job()
        store.push([job])
        first = store.now() / 1e6
        self.put_off(store)
        clock.advance(100)
        self.put_off(other_store)
        found = q.get(job.id)
        assert found is not None
        (entry,) = found.errors
        assert (entry["times"], entry["error"], entry["attempt"]) == (2, "UnknownTask: t", 0)
        assert entry["since"] == pytest.approx(first, abs=SLACK)
        assert entry["at"] - entry["since"] == pytest.approx(100, abs=SLACK)

    def test_stands_beside_failures(self, store: Store, clock: StoreClock, q: Queue) -> None:
        job = new_job()
        store.push([job])
        for error in range(12):
            (row,) = claim(store)
            store.settle([Rollback(row.lease, 0.0, f"failure {error}")])
        self.put_off(store)
        clock.advance(6)
        self.put_off(store)
        found = q.get(job.id)
        assert found is not None
        assert [entry["error"] for entry in found.errors] == [
            *(f"failure {error}" for error in range(3, 12)),
            "UnknownTask: t",
        ]
        assert found.errors[-1]["times"] == 2
        clock.advance(6)
        (row,) = claim(store)
        assert row.attempts == 13
        store.settle([Rollback(row.lease, 0.0, "failure 12")])
        self.put_off(store)
        again = q.get(job.id)
        assert again is not None
        assert again.errors[-1]["times"] == 1

    @pytest.mark.parametrize("how", ["dies", "gives back"])
    def test_of_a_job_that_a_worker_did_not_begin(self, store: Store, clock: StoreClock, q: Queue, how: str) -> None:
        job = new_job()
        store.push([job])
        self.put_off(store)
        clock.advance(6)
        store.beat([worker("w")])
        (row,) = claim(store, worker="w")
        if how == "dies":
            clock.advance(31)
            store.beat([worker("v")])
            store.recover()
            assert state(store, job.id) is JobState.READY
        else:
            store.settle([Rollback(row.lease, 0.0, refund=True)])
            self.put_off(store)
            found = q.get(job.id)
            assert found is not None
            assert [entry.get("times") for entry in found.errors] == [2]


def let_pass(clock: StoreClock, store: Store, job_id: str) -> float:
    """Move the clock to when the job is due; return how many seconds that were."""
    seconds = seconds_until(store, row_of(store, job_id).run_at)
    clock.advance(seconds + 0.001)
    return seconds


STRANGERS: dict[str, Callable[[Stanchion], Any]] = {
    "task": lambda app: app.using("new.task", queue=QUEUE).enqueue(1),
    "station": lambda app: app.queue(QUEUE).push(1),
}


class TestUnknownWork:
    """The behaviour of a worker. Concerns only the model."""

    @pytest.mark.parametrize("enqueue", STRANGERS.values(), ids=STRANGERS)
    def test_is_put_off_with_growing_delays(
        self, app: Stanchion, store: Store, clock: StoreClock, enqueue: Callable[[Stanchion], Any]
    ) -> None:
        job_id = enqueue(app).id
        delays = []
        for _ in range(10):
            assert app.drain([QUEUE]) == 0
            delays.append(let_pass(clock, store, job_id))
        expected = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, WAIT, WAIT, WAIT]
        for delay, mean in zip(delays, expected, strict=True):
            assert mean * 0.9 - SLACK <= delay <= min(mean * 1.1, WAIT)
        row = row_of(store, job_id)
        assert (row.attempts, row.failures) == (0, 0)

    @pytest.mark.parametrize("enqueue", STRANGERS.values(), ids=STRANGERS)
    def test_is_dead_after_a_day(
        self, app: Stanchion, store: Store, clock: StoreClock, enqueue: Callable[[Stanchion], Any]
    ) -> None:
        job_id = enqueue(app).id
        app.drain([QUEUE])
        clock.advance(86_400 - 2 * SLACK)
        app.drain([QUEUE])
        assert state(store, job_id) is JobState.SCHEDULED
        clock.advance(WAIT + 2 * SLACK)
        app.drain([QUEUE])
        dead = app.get(job_id)
        assert dead is not None
        assert dead.state is JobState.DEAD
        assert [entry.get("times") for entry in dead.errors] == [2, None]
        assert "then retry" in dead.errors[-1]["error"]

    def test_after_how_long_is_a_setting(self, store: Store, clock: StoreClock) -> None:
        app = Stanchion(store=store, bury_unknown_after=10 * 86_400)
        handle = app.using("new.task", queue=QUEUE).enqueue(1)
        for _ in range(9):
            app.drain([QUEUE])
            clock.advance(86_400)
        assert handle.state is not JobState.DEAD
        Stanchion(store=store, bury_unknown_after=0).drain([QUEUE])
        with pytest.raises(JobFailed, match=r"new\.task"):
            handle.result(timeout=60)

    def test_runs_once_a_release_knows_it(self, app: Stanchion, other_app: Stanchion, clock: StoreClock) -> None:
        ran: list[Any] = []
        app.pipeline("etl").station("raw")(lambda item: ran.append(item))
        handle = other_app.using("new.task", queue=QUEUE, max_attempts=1).enqueue(1)
        item = other_app.queue("etl.raw").push("item")
        other_app.drain([QUEUE, "etl.raw"])
        app.task(queue=QUEUE, name="new.task")(ran.append)
        assert app.drain() == 0
        clock.advance(WAIT)
        assert app.drain() == 2
        assert sorted(map(str, ran)) == ["1", "item"]
        assert handle.job().attempts == 1
        found = app.get(item.id)
        assert found is not None
        assert found.state is JobState.DONE

    def test_a_day_begins_anew_when_it_was_known_between(
        self, app: Stanchion, other_app: Stanchion, store: Store, clock: StoreClock
    ) -> None:
        app.task(queue=QUEUE, name="poll")(lambda: Snooze(50_000))
        handle = other_app.using("poll", queue=QUEUE).enqueue()
        for _ in range(3):
            other_app.drain([QUEUE])
            assert handle.job().errors[-1]["times"] == 1
            let_pass(clock, store, handle.id)
            assert app.drain() == 1
            assert handle.job().errors == []
            let_pass(clock, store, handle.id)
        assert handle.state is JobState.READY

    def test_it_is_no_failure_to_retries_and_listeners(
        self, app: Stanchion, other_app: Stanchion, store: Store, clock: StoreClock
    ) -> None:
        heard: list[str] = []
        for event in ("started", "failed", "retrying", "dead"):
            other_app.on(event)(lambda *_, event=event: heard.append(event))

        @app.task(queue=QUEUE, name="fail", retry=Retry.linear(1000, jitter=0))
        def fail(job: Job) -> None:
            raise ValueError(f"attempt {job.attempt}, failures {job.failures}")

        handle = fail.enqueue()
        for _ in range(2):
            other_app.drain([QUEUE])
            let_pass(clock, store, handle.id)
        app.drain()
        assert let_pass(clock, store, handle.id) == pytest.approx(1000, abs=SLACK)
        assert [entry["error"] for entry in handle.job().errors][1:] == ["ValueError: attempt 1, failures 0"]
        assert heard == []

    def test_is_said_once_per_name(self, app: Stanchion, clock: StoreClock, caplog: pytest.LogCaptureFixture) -> None:
        for name in ("one.task", "two.task", "one.task"):
            app.using(name, queue=QUEUE).enqueue()
        with caplog.at_level(logging.WARNING, "stanchion"):
            for _ in range(3):
                app.drain([QUEUE])
                clock.advance(WAIT)
        assert sorted(record.getMessage().split("'")[1] for record in caplog.records) == ["one.task", "two.task"]

    def test_the_queue_goes_on(self, app: Stanchion) -> None:
        ran: list[int] = []
        work = app.task(queue=QUEUE, name="known")(ran.append)
        app.using("new.task", queue=QUEUE, priority=50).enqueue_many([(n,) for n in range(20)])
        work.enqueue(1)
        assert app.drain() == 1
        assert ran == [1]

    @pytest.mark.parametrize("seconds", [-1, "a day", float("nan"), True, None], ids=repr)
    def test_a_setting_that_makes_no_sense(self, seconds: Any) -> None:
        with pytest.raises(ValueError, match="bury_unknown_after"):
            Stanchion("memory://", bury_unknown_after=seconds)
