"""Attempts that run too long."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stanchion import JobState, Reservation, Stanchion, Worker
from stanchion.app import on_store
from stanchion.context import context_of
from stanchion.errors import InvalidInput, TaskInterrupted
from stanchion.worker.running import timeouts
from stanchion.worker.running.default_timeouts import DefaultTimeouts
from stanchion.worker.worker import oversight_of
from tests.worker.conftest import Faulty, ended, failed, until, working

pytestmark = pytest.mark.parametrize("app", ["memory"], indirect=True)


def test_a_sync_task_is_interrupted(app):
    cleaned_up = threading.Event()

    @app.task(timeout=0.2)
    def spin() -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            cleaned_up.set()

    @app.task
    def fine() -> int:
        return 1

    with working(app, threads=1):
        job = failed(app, spin.enqueue().id)
        assert cleaned_up.is_set()
        assert fine.enqueue().result(timeout=60) == 1
    assert (job.state, job.failures) == (JobState.SCHEDULED, 1)
    assert job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.2 s"
    assert "time.sleep" in job.errors[-1]["traceback"]


def test_an_async_task_is_cancelled(app):
    cleaned_up = threading.Event()

    @app.task(timeout=0.2)
    async def sleep() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            cleaned_up.set()

    with working(app):
        job = failed(app, sleep.enqueue().id)
    assert cleaned_up.is_set()
    assert job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.2 s"


def test_the_jobs_own_timeout_counts(app):
    @app.task(timeout=60)
    def spin() -> None:
        while True:
            time.sleep(0.01)

    with working(app):
        job = failed(app, spin.using(timeout=0.1).enqueue().id)
    assert job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.1 s"


def test_the_queue_the_app_and_the_worker_have_defaults(app):
    @app.task(queue="limited")
    def spin() -> None:
        while True:
            time.sleep(0.01)

    @app.task(queue="limited")
    async def sleep() -> None:
        await asyncio.sleep(60)

    def error_under(timeout: float | None) -> set[str]:
        with working(app, timeout=timeout):
            ids = [spin.enqueue().id, sleep.enqueue().id]
            return {failed(app, job_id).errors[-1]["error"] for job_id in ids}

    assert error_under(0.11) == {"TaskTimeout: ran longer than 0.11 s"}
    context_of(app).timeout = 0.12
    assert error_under(0.11) == {"TaskTimeout: ran longer than 0.12 s"}
    app.queue("limited").configure(timeout=0.13)
    assert error_under(0.11) == {"TaskTimeout: ran longer than 0.13 s"}


def test_the_setting_of_the_queue_counts_for_jobs_that_are_queued_already(app):
    @app.task(queue="limited")
    def spin() -> None:
        while True:
            time.sleep(0.01)

    limited = app.queue("limited")
    limited.configure(timeout=60, max_running=1)
    ids = [spin.enqueue().id for _ in range(2)]
    limited.configure(timeout=0.1)
    with working(app):
        errors = [failed(app, job_id).errors[-1]["error"] for job_id in ids]
        assert errors == ["TaskTimeout: ran longer than 0.1 s"] * 2


def test_the_task_and_the_job_precede_the_queue(app):
    @app.task(queue="limited", timeout=0.1)
    def spin() -> None:
        while True:
            time.sleep(0.01)

    @app.task(queue="limited", timeout=60)
    def waits() -> None:
        while True:
            time.sleep(0.01)

    app.queue("limited").configure(timeout=40)
    with working(app):
        of_task = failed(app, spin.enqueue().id)
        of_job = failed(app, waits.using(timeout=0.2).enqueue().id)
    assert of_task.errors[-1]["error"] == "TaskTimeout: ran longer than 0.1 s"
    assert of_job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.2 s"


def test_a_store_that_does_not_answer_leaves_the_last_timeout(app):
    app.queue("limited").configure(timeout=7)
    defaults = DefaultTimeouts(context_of(app), 9.0, heartbeat=1e-9)
    defaults.meet("limited")
    assert (defaults.of("limited"), defaults.of("other")) == (7.0, 9.0)
    context_of(app).settings.forget()
    store = Faulty(app.store, "queues")
    store.broken = True
    with on_store(app, store):
        defaults.refresh()
        assert defaults.of("limited") == 7.0
        store.broken = False
        app.queue("limited").configure(timeout=None)
        defaults.refresh()
        assert defaults.of("limited") == 9.0
        defaults.meet("later")
        assert defaults.of("later") == 9.0


def test_jobs_that_come_seldom_read_no_setting(app):
    store = Faulty(app.store)
    of_worker = Stanchion(store=store)

    @of_worker.task(name="task", queue="limited")
    def task() -> int:
        return 1

    with working(of_worker, heartbeat=1000):
        assert app.enqueue("task", queue="limited").result(timeout=60) == 1
        before = store.calls["queues"]
        for _ in range(5):
            context_of(of_worker).settings.forget()
            assert app.enqueue("task", queue="limited").result(timeout=60) == 1
    assert store.calls["queues"] == before


@pytest.mark.slow
def test_a_changed_setting_counts_from_the_next_heartbeat(app):
    of_worker = Stanchion(store=app.store)

    @of_worker.task(name="naps", queue="limited")
    def naps() -> None:
        for _ in range(100):
            time.sleep(0.01)

    def error() -> str | None:
        job = ended(app, app.enqueue("naps", queue="limited", max_attempts=1).id)
        return job.errors[-1]["error"] if job.errors else None

    with working(of_worker, heartbeat=0.2):
        assert error() is None
        app.queue("limited").configure(timeout=0.13)
        until(lambda: error() == "TaskTimeout: ran longer than 0.13 s")


def test_a_timeout_of_nothing_is_refused(app):
    for timeout in (0, -1, "1"):
        with pytest.raises(InvalidInput, match="timeout"):
            Stanchion("memory://", timeout=timeout)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="timeout"):
            Worker(app, timeout=timeout)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="timeout"):
            app.queue("limited").configure(timeout=timeout)


def test_a_task_within_its_time_is_left_alone(app):
    @app.task(timeout=5)
    def quick(n: int) -> int:
        return n

    @app.task(timeout=5)
    async def later(n: int) -> int:
        return n

    with working(app):
        handles = quick.enqueue_many([(n,) for n in range(50)]) + later.enqueue_many([(n,) for n in range(50)])
        assert [handle.result(timeout=60) for handle in handles] == [*range(50)] * 2


def test_an_interrupted_task_has_failed_whatever_it_returns(app):
    @app.task(timeout=0.1)
    def stubborn() -> str:
        try:
            while True:
                time.sleep(0.01)
        except TaskInterrupted:
            return "done all the same"

    with working(app):
        assert failed(app, stubborn.enqueue().id).state is JobState.SCHEDULED


def test_a_task_that_settled_its_job_keeps_that(app):
    @app.task(timeout=0.1)
    def committed(job: Reservation) -> None:
        job.commit("in time")
        while True:
            time.sleep(0.01)

    with working(app):
        handle = committed.enqueue()
        assert handle.result(timeout=60) == "in time"
        time.sleep(0.3)
        assert (handle.job().state, handle.job().failures) == (JobState.DONE, 0)


def test_the_tasks_own_except_does_not_swallow_a_time_out(app):
    swallowed: list[object] = []
    cleaned_up = threading.Event()

    @app.task(timeout=0.2, max_attempts=1)
    def spin() -> str:
        try:
            while True:
                try:
                    time.sleep(0.01)
                except Exception as error:
                    swallowed.append(error)
        finally:
            cleaned_up.set()

    with working(app, threads=1) as worker:
        oversight_of(worker).on_stuck = lambda: swallowed.append("stuck")
        job = ended(app, spin.enqueue().id)
    assert job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.2 s"
    assert cleaned_up.is_set()
    assert swallowed == []


@pytest.mark.parametrize("kind", ["sync", "sync, kept", "async"])
def test_a_time_out_that_is_swallowed_comes_again(app, kind):
    swallowed: list[object] = []
    kept: list[BaseException] = []

    @app.task(name="sync", timeout=0.2, max_attempts=1)
    def spin() -> None:
        while len(swallowed) < 2:
            try:
                while True:
                    time.sleep(0.01)
            except:  # noqa: E722
                swallowed.append("once more")
        while True:
            time.sleep(0.01)

    @app.task(name="sync, kept", timeout=0.2, max_attempts=1)
    def spin_and_keep() -> None:
        while len(swallowed) < 2:
            try:
                while True:
                    time.sleep(0.01)
            except BaseException as error:
                kept.append(error)
                swallowed.append("once more")
        while True:
            time.sleep(0.01)

    @app.task(name="async", timeout=0.2, max_attempts=1)
    async def sleep() -> None:
        while len(swallowed) < 2:
            try:
                await asyncio.sleep(60)
            except:  # noqa: E722
                swallowed.append("once more")
        await asyncio.sleep(60)

    with working(app, threads=1) as worker:
        oversight_of(worker).on_stuck = lambda: swallowed.append("stuck")
        job = ended(app, app.enqueue(kind).id)
    assert job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.2 s"
    assert swallowed == ["once more"] * 2


@pytest.mark.parametrize("how", ["finally", "except", "generator", "another error"])
def test_no_second_time_out_hits_a_clean_up(app, monkeypatch, how):
    monkeypatch.setattr(timeouts, "STOP_SECONDS_MAX", 60)
    cleaned_up = threading.Event()

    @app.task(name="finally", timeout=0.1, max_attempts=1)
    def finally_() -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            for _ in range(100):  # ten ticks of the watch
                time.sleep(0.01)
            cleaned_up.set()

    @app.task(name="except", timeout=0.1, max_attempts=1)
    def except_() -> None:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            for _ in range(100):
                time.sleep(0.01)
            cleaned_up.set()
            raise

    @contextmanager
    def opened() -> Iterator[None]:
        try:
            yield
        finally:
            for _ in range(100):
                time.sleep(0.01)
            cleaned_up.set()

    @app.task(name="generator", timeout=0.1, max_attempts=1)
    def generator() -> None:
        with opened():
            while True:
                time.sleep(0.01)

    @app.task(name="another error", timeout=0.1, max_attempts=1)
    def another() -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            try:
                int("no number")
            except ValueError:
                for _ in range(100):
                    time.sleep(0.01)
                cleaned_up.set()

    with working(app, threads=1):
        ended(app, app.enqueue(how).id)
    assert cleaned_up.is_set()


def test_a_reservation_of_an_interrupted_task_has_failed(app):
    app.queue("inner").push({})

    @app.task(timeout=0.1, max_attempts=1)
    def outer() -> None:
        with app.queue("inner").reserve()[0]:
            while True:
                time.sleep(0.01)

    with working(app, ["default"], threads=1):
        ended(app, outer.enqueue().id)
    (inner,) = app.find(queue="inner")
    assert inner.errors[-1]["error"] == "TaskTimeout: ran longer than 0.1 s"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_task_that_does_not_stop_is_given_up(app, monkeypatch, kind):
    monkeypatch.setattr(timeouts, "STOP_SECONDS_MAX", 0.2)
    release, back, stuck = threading.Event(), threading.Event(), []

    def deaf() -> None:
        while not release.wait(0.02):
            pass

    def hang() -> str:
        while not back.is_set():
            try:
                deaf()
                back.set()
            except TaskInterrupted:
                continue
        return "too late"

    @app.task(name="hang", timeout=0.1)
    def sync_hang() -> str:
        return hang()

    @app.task(name="async hang", timeout=0.1)
    async def async_hang() -> str:
        return hang()

    @app.task
    def fine() -> int:
        return 1

    @app.task
    async def later() -> int:
        return 1

    with working(app, threads=1) as worker:
        oversight_of(worker).on_stuck = lambda: stuck.append(True)
        job_id = (sync_hang if kind == "sync" else async_hang).enqueue().id
        job = failed(app, job_id)
        assert job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.1 s"
        until(lambda: stuck == [True])
        assert fine.enqueue().result(timeout=60) == 1
        assert later.enqueue().result(timeout=60) == 1
        release.set()
        assert back.wait(60)
        assert fine.enqueue().result(timeout=60) == 1
        assert (app.get(job_id).state, app.get(job_id).failures) == (JobState.SCHEDULED, 1)


def test_interrupts_hit_only_the_attempt_they_are_for(app):
    """Many attempts that end just when their time does: no thread dies, nothing else is interrupted."""
    innocent = []

    @app.task(timeout=0.1, max_attempts=1)
    def close_call(n: int) -> None:
        end = time.monotonic() + 0.095 + n * 0.0005
        while time.monotonic() < end:
            pass

    @app.task(max_attempts=1)
    def bystander(n: int) -> int:
        innocent.append(n)
        return sum(range(1000))

    with working(app, threads=2):
        for n in range(12):
            close_call.enqueue(n)
            bystander.enqueue(n)
        until(lambda: app.queue("default").size().total == 0)
    assert sorted(innocent) == list(range(12))
    errors = [job.errors[-1]["error"] for job in app.find(state="dead")]
    assert set(errors) <= {"TaskTimeout: ran longer than 0.1 s"}
