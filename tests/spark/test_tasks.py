"""Workers in tasks of Spark: how long they work, and how they stop."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.errors import StoreUnavailable
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.status import StationProgress
from stanchion.spark.stations import engine, rounds, tasks
from stanchion.spark.stations.task_rounds import TaskRounds
from stanchion.spark.stations.tasks import TaskInterrupted, TaskWorker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = 60.0


def eventually(true: Any, seconds: float = 60.0) -> None:
    """Wait until something is true."""
    for _ in range(int(20 * seconds)):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to be true")


class TestRounds:
    def test_one_goes_on_until_it_is_ended(self, app: Stanchion) -> None:
        for one in ("a", "b"):
            rounds.renew(app.store, "etl", one, LONG)
        assert [rounds.goes_on(app.store, "etl", one) for one in ("a", "b", "c")] == [True, True, False]
        assert not rounds.goes_on(app.store, "other", "a")
        rounds.end(app.store, "etl", "a")
        assert [rounds.goes_on(app.store, "etl", one) for one in ("a", "b")] == [False, True]

    def test_nothing_is_left_of_the_last_one(self, app: Stanchion) -> None:
        rounds.renew(app.store, "etl", "a", LONG)
        for _ in range(2):
            rounds.end(app.store, "etl", "a")
        assert app.store.values(rounds.KIND) == []

    def test_one_that_nobody_renews_is_over_and_forgotten(self, app: Stanchion) -> None:
        rounds.renew(app.store, "etl", "dead", LONG)
        with app.testing() as clock:
            rounds.renew(app.store, "etl", "dead", LONG)
            clock.advance(LONG - 1)
            rounds.renew(app.store, "etl", "alive", LONG)
            assert rounds.goes_on(app.store, "etl", "dead")
            clock.advance(1)
            assert not rounds.goes_on(app.store, "etl", "dead")
            rounds.renew(app.store, "etl", "alive", LONG)
            (value,) = app.store.values(rounds.KIND)
            assert "dead" not in value.text

    def test_drivers_that_write_at_once(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        """None overwrites what another has just written."""
        compare_and_set, written = app.store.compare_and_set, list[str]()

        def later(*change: Any) -> bool:
            if not written:
                written.append("b")
                rounds.renew(app.store, "etl", "b", LONG)
            return compare_and_set(*change)

        monkeypatch.setattr(app.store, "compare_and_set", later)
        rounds.renew(app.store, "etl", "a", LONG)
        assert all(rounds.goes_on(app.store, "etl", one) for one in ("a", "b"))


@pytest.fixture
def etl(app: Stanchion) -> Pipeline:
    made = app.pipeline("etl")
    made.station("raw", to="clean")(lambda n: n + 1)
    made.station("clean")(lambda n: n)
    plan_of(made).prepare()
    return made


def worker_of(etl: Pipeline) -> TaskWorker:
    return TaskWorker(context_of(etl), tuple(etl.queues), "a", heartbeat=10.0, grace=0.5)


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """Threads that do something while a worker has the main one."""
    monkeypatch.setattr(tasks, "LOOK_SECONDS", 0.05)
    started: list[threading.Thread] = []
    yield started
    for thread in started:
        thread.join()


def meanwhile(beside: list[threading.Thread], *steps: Any) -> None:
    """Do these things in another thread, one after the other."""

    def run() -> None:
        for step in steps:
            with suppress(AssertionError):  # so that the worker ends nevertheless, and the test fails
                step()

    beside.append(threading.Thread(target=run))
    beside[-1].start()


class TestTask:
    def done(self, etl: Pipeline, count: int) -> Any:
        return lambda: eventually(lambda: etl.queue("clean").counts().committed == count)

    def test_it_works_until_its_round_ends(self, etl: Pipeline, beside: list[threading.Thread]) -> None:
        store = context_of(etl).store
        rounds.renew(store, "etl.raw", "a", LONG)
        etl.push_many(range(20))
        meanwhile(beside, self.done(etl, 20), lambda: rounds.end(store, "etl.raw", "a"))
        worker_of(etl).run()
        assert etl.queue("clean").counts().committed == 20
        assert store.workers() == []

    def test_its_hooks_run_in_the_process_of_the_task(self, app: Stanchion, etl: Pipeline, tmp_path: Path) -> None:
        app.on_worker_start((tmp_path / "started").touch)
        rounds.renew(app.store, "etl.raw", "a", LONG)
        task = cloudpickle.loads(cloudpickle.dumps(worker_of(etl)))
        meanwhile([], lambda: eventually((tmp_path / "started").exists), lambda: rounds.end(app.store, "etl.raw", "a"))
        task.run()
        assert (tmp_path / "started").exists()

    def test_it_does_nothing_if_its_round_is_over(self, etl: Pipeline) -> None:
        etl.push(1)
        worker_of(etl).run()
        assert etl.queue("raw").size().ready == 1

    def test_it_stops_if_its_driver_is_gone(self, etl: Pipeline) -> None:
        rounds.renew(context_of(etl).store, "etl.raw", "a", 0.5)
        worker_of(etl).run()

    def test_it_works_on_while_the_store_is_away(self, etl: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
        answers: list[Any] = [True, StoreUnavailable("no answer"), True, False]

        def goes_on(*_: Any) -> bool:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return bool(answer)

        monkeypatch.setattr(rounds, "goes_on", goes_on)
        worker_of(etl).run()
        assert answers == []

    def test_a_signal_stops_it_and_fails_the_task(self, etl: Pipeline, beside: list[threading.Thread]) -> None:
        """So that Spark starts another one."""
        rounds.renew(context_of(etl).store, "etl.raw", "a", LONG)
        etl.push(1)
        meanwhile(beside, self.done(etl, 1), lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(TaskInterrupted, match="a signal"):
            worker_of(etl).run()
        assert context_of(etl).store.workers() == []

    def test_it_stops_if_the_process_that_started_it_is_gone(
        self, etl: Pipeline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rounds.renew(context_of(etl).store, "etl.raw", "a", LONG)
        parents = iter([10, 10, 1])
        monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
        with pytest.raises(TaskInterrupted, match="is gone"):
            worker_of(etl).run()

    def test_a_thread_that_can_not_be_stopped_fails_the_task(
        self, app: Stanchion, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its process ends with the task."""
        caplog.set_level(logging.CRITICAL)
        etl, let_go = app.pipeline("etl"), threading.Event()

        @etl.station("raw", timeout=0.2, max_attempts=1)
        def raw(_: int) -> None:
            let_go.wait()

        etl.push(1)
        rounds.renew(app.store, "etl.raw", "a", LONG)
        try:
            with pytest.raises(TaskInterrupted, match="can't be stopped"):
                worker_of(etl).run()
        finally:
            let_go.set()


def descriptions(spark: "SparkSession") -> list[str]:
    """Return the descriptions of the running jobs."""
    context: Any = spark.sparkContext._jsc.sc()
    jobs = context.statusStore().jobsList(None)
    found = [jobs.apply(at) for at in range(jobs.size())]
    return [
        one.description().get() for one in found if one.description().isDefined() and str(one.status()) == "RUNNING"
    ]


def test_a_stop_lets_running_items_finish(spark: "SparkSession", app: Stanchion, tmp_path: Path) -> None:
    etl, hold = app.pipeline("etl"), tmp_path / "hold"

    @etl.station("raw", to="clean")
    def raw(n: int) -> int:
        while n and hold.exists():
            time.sleep(0.05)
        return n

    etl.station("clean")(lambda n: n)
    hold.touch()
    held = etl.push(1)
    stop, told = threading.Event(), list[list[StationProgress]]()
    options: dict[str, Any] = {"spark": spark, "stop": stop, "watch": told.append}
    running = threading.Thread(target=engine.run, args=(etl,), kwargs=options)
    running.start()
    try:
        eventually(lambda: etl.queue("raw").size().running)
        assert descriptions(spark) == ["etl: raw, clean"]
        etl.push(0)
        eventually(lambda: etl.queue("clean").counts().committed == 1)
        stop.set()
        eventually(lambda: [one.state for one in app.store.workers()] == ["stopping"])
        assert app.store.values(rounds.KIND) == []
        assert running.is_alive()
    finally:
        hold.unlink()
        running.join()
    item = app.get(held.id)
    assert item is not None
    assert (item.queue, item.state, item.attempts) == ("etl.clean", "ready", 0)
    assert app.store.workers() == []
    assert [(one.station, one.done, one.total) for one in told[-1]] == [("raw", 2, 2), ("clean", 1, 2)]


@pytest.mark.nightly
def test_tasks_that_do_not_stop_are_killed(spark: "SparkSession", app: Stanchion) -> None:
    etl = app.pipeline("etl")

    @etl.station("raw")
    def raw(_: int) -> None:
        while True:
            time.sleep(1)

    etl.push(1)
    one = TaskRounds(spark, plan_of(etl).chosen(()), 1, heartbeat=10.0, grace=LONG).start()
    eventually(lambda: etl.queue("raw").size().running)
    one.kill()
    assert one.wait(LONG)
    assert one.error is not None
    assert etl.queue("raw").size().running == 1


FLOW = """
import time
from pathlib import Path

from stanchion import Stanchion

app = Stanchion()
etl = app.pipeline("etl")


@etl.station("raw")
def raw(hold):
    while Path(hold).exists():
        time.sleep(0.05)
    return "done"
"""


@pytest.mark.nightly
def test_the_command_stops_gracefully(app: Stanchion, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(FLOW)
    hold = tmp_path / "hold"
    hold.touch()
    item = app.queue("etl.raw").push(str(hold))
    command = [sys.executable, "-m", "stanchion", "pipeline", "run", "waits:etl", "--engine", "spark"]
    env = {**os.environ, "STANCHION_URL": app.url, "PYTHONPATH": str(tmp_path)}
    running = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: app.queue("etl.raw").size().running, 300)  # a session starts slowly on a busy machine
        running.send_signal(signal.SIGTERM)
        eventually(lambda: [one.state for one in app.store.workers()] == ["stopping"])
        hold.unlink()
        _, told = running.communicate(timeout=LONG)
    finally:
        running.kill()
    assert running.returncode == 0, told
    assert "stanchion.pipeline: raw 1 of 1" in told
    found = app.get(item.id)
    assert found is not None
    assert (found.state, found.attempts) == ("done", 1)
