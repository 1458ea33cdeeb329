"""Hooks that workers call when they start and stop: of the process, of its threads, of its event loops."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stanchion import InvalidInput, JobState, Stanchion, Worker
from stanchion.worker.running.loop import Loops
from tests.worker.conftest import ended, until, working

seen: list[str] = []


@pytest.fixture
def app() -> Iterator[Stanchion]:
    seen.clear()
    app = Stanchion("memory://")
    app.task(name="idle")(note("idle"))
    yield app
    app.close()


def note(what: str) -> Callable[[], None]:
    def hook() -> None:
        seen.append(what)

    return hook


def anote(what: str) -> Callable[[], Any]:
    async def hook() -> None:
        asyncio.get_running_loop()
        seen.append(what)

    return hook


class TestOfTheProcess:
    def test_are_called_before_the_first_job_and_after_the_last(self, app: Stanchion) -> None:
        app.on_worker_start(note("start"))
        app.on_worker_stop(note("stop"))
        job = app.task(name="t")(note("job")).enqueue()
        with working(app):
            ended(app, job.id)
            assert seen == ["start", "job"]
        assert seen == ["start", "job", "stop"]

    def test_run_in_order_and_those_of_the_stop_in_reverse(self, app: Stanchion) -> None:
        for number in "12":
            app.on_worker_start(note(f"start {number}"))
            app.on_worker_stop(note(f"stop {number}"))
        with working(app):
            pass
        assert seen == ["start 1", "start 2", "stop 2", "stop 1"]

    def test_are_functions_as_before(self, app: Stanchion) -> None:
        @app.on_worker_start
        def connect() -> str:
            return "connected"

        @app.on_worker_stop(per="process")
        def leave() -> str:
            return "left"

        assert (connect(), leave()) == ("connected", "left")

    def test_one_that_fails_stops_the_start(self, app: Stanchion) -> None:
        @app.on_worker_start
        def connect() -> None:
            raise ConnectionError("no route")

        app.on_worker_stop(note("stop"))
        handle = app.task(name="t")(note("job")).enqueue()
        worker = Worker(app)
        with pytest.raises(ConnectionError, match="no route"):
            worker.run()
        worker.stop()
        assert (seen, handle.job().state, handle.job().attempts) == ([], JobState.READY, 0)

    def test_those_of_the_stop_that_fail_are_logged(self, app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
        app.on_worker_stop(note("last"))

        @app.on_worker_stop
        def leave() -> None:
            raise ConnectionError("no route")

        with working(app):
            pass
        assert seen == ["last"]
        assert "on_worker_stop failed" in caplog.text

    def test_one_that_hangs_does_not_hold_up_the_stop(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stanchion.worker.worker.STEP_SECONDS_MAX", 0.2)
        gate = threading.Event()
        app.on_worker_stop(gate.wait)
        with working(app):
            pass
        gate.set()

    def test_a_drain_calls_none(self, app: Stanchion) -> None:
        app.on_worker_start(note("start"))
        app.on_worker_stop(note("stop"))
        app.task(name="t")(note("job")).enqueue()
        app.drain()
        assert seen == ["job"]


class TestOfThreads:
    def test_are_called_in_each_thread_around_its_jobs(self, app: Stanchion) -> None:
        local = threading.local()
        closed: list[str] = []

        @app.on_worker_start(per="thread")
        def connect() -> None:
            local.connection = threading.current_thread().name

        @app.on_worker_stop(per="thread")
        def close() -> None:
            time.sleep(0.1)
            closed.append(local.connection)

        barrier = threading.Barrier(3)

        @app.task(name="t")
        def task() -> str:
            barrier.wait(60)
            return str(local.connection)

        with working(app, threads=3):
            jobs = [task.enqueue() for _ in range(3)]
            for job in jobs:
                assert ended(app, job.id).result
        assert len(closed) >= 3

    def test_one_that_fails_stops_the_worker_and_its_jobs_go_back(self, app: Stanchion) -> None:
        @app.on_worker_start(per="thread")
        def connect() -> None:
            raise ConnectionError("no route")

        handle = app.task(name="t")(note("job")).enqueue()
        with pytest.raises(ConnectionError, match="no route"):
            Worker(app, threads=2, grace=0).run()
        job = handle.job()
        assert (seen, job.state, job.attempts, job.failures) == ([], JobState.READY, 0, 0)

    def test_a_worker_whose_threads_can_t_start_is_red(self, app: Stanchion) -> None:
        @app.on_worker_start(per="thread")
        def connect() -> None:
            raise ConnectionError("no route")

        app.task(name="t")(note("job")).enqueue()
        with working(app) as worker:
            until(lambda: not worker.healthy)

    def test_one_whose_thread_was_given_up_is_closed_when_it_ends(
        self, app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.worker.running.timeouts.STOP_SECONDS_MAX", 0.05)
        app.on_worker_stop(per="thread")(note("closed"))
        gate = threading.Event()

        @app.task(name="t", timeout=0.05, max_attempts=1)
        def stuck() -> None:
            gate.wait()

        with working(app, threads=1):
            assert ended(app, stuck.enqueue().id).state is JobState.DEAD
            gate.set()
            until(lambda: seen)
        until(lambda: len(seen) == 2)


class TestOfLoops:
    def test_run_on_the_loop_of_the_tasks(self, app: Stanchion) -> None:
        loops: list[asyncio.AbstractEventLoop] = []

        async def here() -> None:
            loops.append(asyncio.get_running_loop())

        app.on_worker_start(here)
        app.on_worker_start(per="thread")(here)
        app.on_worker_stop(per="thread")(here)
        app.on_worker_stop(here)
        task = app.task(name="t")(here)
        with working(app):
            assert len(loops) == 2, "both ran before the worker took a job"
            ended(app, task.enqueue().id)
        assert len(loops) == 5
        assert len(set(map(id, loops))) == 1

    def test_in_order(self, app: Stanchion) -> None:
        app.on_worker_start(anote("start"))
        app.on_worker_start(per="thread")(anote("start of loop"))
        app.on_worker_stop(anote("stop"))
        app.on_worker_stop(per="thread")(anote("stop of loop"))
        with working(app):
            pass
        assert seen == ["start", "start of loop", "stop of loop", "stop"]

    def test_attempts_wait_for_those_of_their_loop(self, app: Stanchion) -> None:
        gate = threading.Event()

        @app.on_worker_start(per="thread")
        async def slow() -> None:
            while not gate.is_set():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.1)  # an attempt that doesn't wait begins meanwhile
            seen.append("ready")

        task = app.task(name="t")(anote("job"))
        with working(app) as worker:
            handle = task.enqueue()
            until(lambda: worker._runners.running)
            gate.set()
            ended(app, handle.id)
        assert seen == ["ready", "job"]

    def test_one_of_the_process_that_fails_stops_the_start(self, app: Stanchion) -> None:
        @app.on_worker_start
        async def connect() -> None:
            raise ConnectionError("no route")

        with pytest.raises(ConnectionError, match="no route"):
            Worker(app).run()

    def test_one_of_a_loop_that_fails_stops_the_worker_and_its_jobs_go_back(self, app: Stanchion) -> None:
        @app.on_worker_start(per="thread")
        async def connect() -> None:
            raise ConnectionError("no route")

        handle = app.task(name="t")(anote("job")).enqueue()
        with pytest.raises(ConnectionError, match="no route"):
            Worker(app, grace=0).run()
        job = handle.job()
        assert (seen, job.state, job.attempts, job.failures) == ([], JobState.READY, 0, 0)

    def test_a_new_loop_calls_its_own(self, app: Stanchion) -> None:
        app.on_worker_start(anote("start"))
        app.on_worker_start(per="thread")(anote("start of loop"))
        app.on_worker_stop(per="thread")(anote("stop of loop"))
        app.on_worker_stop(anote("stop"))
        task = app.task(name="t")(anote("job"))
        with working(app) as worker:
            loops: Loops = worker._runners.loops
            loops.replace_current()
            ended(app, task.enqueue().id)
            loops.check()
            until(lambda: "stop of loop" in seen)
        assert seen.count("start") == seen.count("stop") == 1
        assert seen.count("start of loop") == seen.count("stop of loop") == 2
        assert seen[-1] == "stop"

    def test_without_async_tasks_no_loop_is_made_for_those_of_threads(self, app: Stanchion) -> None:
        app.on_worker_start(per="thread")(anote("start of loop"))
        task = app.task(name="t")(note("job"))
        with working(app):
            ended(app, task.enqueue().id)
        assert seen == ["job"]


def generator() -> Iterator[None]:
    yield


@pytest.mark.parametrize(("per", "hook"), [("job", note("x")), ("process", 5), ("process", generator)])
def test_anything_else_is_refused(app: Stanchion, per: Any, hook: Any) -> None:
    with pytest.raises(InvalidInput):
        app.on_worker_start(per=per)(hook)
