"""Stopping: what runs may finish, the rest goes back unharmed."""

import asyncio
import os
import signal
import threading
import time

import pytest

from stanchion import JobState, Stanchion, Worker
from stanchion.worker.process.signals import Calls, stopping_signals
from stanchion.worker.worker import oversight_of
from tests.worker.conftest import Faulty, until


def test_running_jobs_finish_and_the_others_go_back(app):
    begun, release, ran = threading.Semaphore(0), threading.Event(), []

    @app.task
    def task(n: int) -> None:
        begun.release()
        release.wait(30)
        ran.append(n)

    task.enqueue_many([(n,) for n in range(10)])
    worker = Worker(app, threads=2)
    worker.start()
    begun.acquire()
    begun.acquire()
    threading.Timer(0.1, release.set).start()
    worker.stop(grace=5)
    assert len(ran) == 2
    counts, size = app.queue("default").counts(), app.queue("default").size()
    assert (counts.committed, size.ready, size.running) == (2, 8, 0)
    assert {job.attempts for job in app.find(state="ready")} == {0}
    assert app.workers() == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_after_the_grace_running_jobs_go_back_uncounted(app, kind):
    begun, release, cancelled = threading.Event(), threading.Event(), threading.Event()

    @app.task
    def sync() -> None:
        begun.set()
        release.wait(60)

    @app.task
    async def later() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    handle = (sync if kind == "sync" else later).enqueue()
    worker = Worker(app)
    worker.start()
    assert begun.wait(60)
    began = time.monotonic()
    worker.stop(grace=0.2)
    assert 0.2 <= time.monotonic() - began < 50
    assert (handle.state, handle.job().attempts) == (JobState.READY, 0)
    if kind == "async":
        assert cancelled.wait(60)
    release.set()
    time.sleep(0.1)
    assert handle.state is JobState.READY


@pytest.fixture
def short_farewell(monkeypatch):
    monkeypatch.setattr("stanchion.worker.worker.STEP_SECONDS_MAX", 0.3)


@pytest.mark.usefixtures("short_farewell")
def test_stop_returns_in_time_without_a_store():
    store = Faulty(Stanchion("memory://").store)
    app = Stanchion(store=store)
    begun = threading.Event()

    @app.task
    def task() -> None:
        begun.set()
        time.sleep(30)

    task.enqueue()
    worker = Worker(app)
    worker.start()
    assert begun.wait(60)
    store.broken = True
    began = time.monotonic()
    worker.stop(grace=0.1)
    assert time.monotonic() - began < 25


@pytest.mark.usefixtures("short_farewell")
def test_stop_returns_in_time_when_the_store_hangs():
    hang = threading.Event()
    store = Stanchion("memory://").store
    app = Stanchion(store=store)

    @app.task
    def task() -> None: ...

    worker = Worker(app, heartbeat=0.1)
    worker.start()
    until(store.workers)
    for verb in ("claim", "beat", "leave", "settle", "recover"):
        setattr(store, verb, lambda *_args, **_kwargs: hang.wait(30))
    task.enqueue()
    time.sleep(0.3)
    began = time.monotonic()
    worker.stop(grace=0.1)
    assert time.monotonic() - began < 25
    hang.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_the_first_signal_stops_within_the_grace(app, number):
    ran = []

    @app.task
    def task() -> None:
        os.kill(os.getpid(), number)
        time.sleep(0.2)
        ran.append(1)

    found = signal.getsignal(number)
    before = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, before)  # the tests themselves may run under nohup
    try:
        task.enqueue()
        Worker(app, grace=5).run()
        assert ran == [1]
        assert app.queue("default").counts().committed == 1
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, found)


def test_under_nohup_the_end_of_the_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT} == set(stopping_signals())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert signal.SIGHUP not in stopping_signals()
        with Calls() as calls:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not calls.wait(0.05)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_second_signal_stops_at_once(app):
    release = threading.Event()

    @app.task
    def task() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: oversight_of(worker).stop_requested)
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(60)

    handle = task.enqueue()
    began = time.monotonic()
    worker = Worker(app, grace=30)
    worker.run()
    assert time.monotonic() - began < 25
    assert (handle.state, handle.job().attempts) == (JobState.READY, 0)
    release.set()


def test_run_ends_when_another_thread_stops_it(app):
    @app.task
    def task() -> None: ...

    worker = Worker(app)
    thread = threading.Thread(target=worker.run)
    thread.start()
    until(app.workers)
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    worker.stop()


def test_a_worker_that_never_started_can_be_stopped(app):
    Worker(app).stop()
