"""Schedules in real workers: threads of one process, and processes that are killed around their ticks."""

import os
import random
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from stanchion import JobState, Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import SECOND
from stanchion.worker import scheduler
from tests.worker.conftest import Faulty, until, working

MINUTE = 60
TICKS = 20

JOBS = """
import os, threading, time
from stanchion import Stanchion
from stanchion.worker import scheduler

SPEED = 60  # the store's clock runs so many times faster than ours

app = Stanchion(os.environ["JOBS_URL"])
scheduler.PAUSE_SECONDS_MAX = scheduler.JITTER = 0.02


def run_fast():
    began = float(os.environ["JOBS_BEGAN"])
    while True:
        app.store.clock_offset = (time.time() - began) * (SPEED - 1)
        time.sleep(0.002)


app.store.clock_offset = (time.time() - float(os.environ["JOBS_BEGAN"])) * (SPEED - 1)
threading.Thread(target=run_fast, daemon=True).start()


@app.cron("* * * * *", name="minutely", missed="all")
def minutely():
    return os.getpid()
"""

Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers look at the clock often, as the tests move it."""
    monkeypatch.setattr(scheduler, "PAUSE_SECONDS_MAX", 0.02)
    monkeypatch.setattr(scheduler, "JITTER", 0.01)


def to_the_next_minute(app: Stanchion) -> None:
    """Move the store's clock past its next full minute."""
    app.store.clock_offset += MINUTE - app.store.now() / SECOND % MINUTE + 0.001


def declare(app: Stanchion) -> None:
    @app.cron("* * * * *", name="minutely")
    def minutely() -> str:
        return "done"


@pytest.mark.usefixtures("swift")
def test_workers_of_a_process_share_the_ticks(app: Stanchion) -> None:
    declare(app)
    with working(app), working(app), working(app):
        until(lambda: app.schedule("minutely").declared)
        for count in range(1, 6):
            to_the_next_minute(app)
            until(lambda: app.queue("default").counts().committed == count)  # noqa: B023 - called here
        time.sleep(0.1)
        assert app.queue("default").counts().pushed == 5


@pytest.mark.usefixtures("swift")
def test_an_outage_of_the_store_is_waited_for(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    declare(app)
    store: Any = Faulty(app.store, "values", "compare_and_set")
    store.error = StoreUnavailable("no route to the store")
    context_of(app)._store = store
    with working(app):
        until(lambda: app.schedule("minutely").declared)
        store.broken = True
        to_the_next_minute(app)
        until(lambda: "the schedules wait" in caplog.text)
        assert app.queue("default").counts().pushed == 0
        store.broken = False
        until(lambda: app.queue("default").counts().committed == 1)


def test_an_app_without_schedules_has_no_scheduler(app: Stanchion) -> None:
    app.task(name="plain")(lambda: None)
    store: Any = Faulty(app.store, "values")
    context_of(app)._store = store
    with working(app):
        assert app.enqueue("plain").result(timeout=60) is None
    assert store.calls == {}


@pytest.mark.usefixtures("swift")
def test_in_testing_ticks_come_as_the_clock_is_moved() -> None:
    app = Stanchion("sqlite:///never-touched.db")
    ran: list[str] = []
    app.cron("0 3 * * *", tz="Europe/Paris", name="nightly")(lambda: ran.append("nightly"))
    with app.testing() as clock:
        assert tick(app) == 0
        clock.advance((app.schedule("nightly").next()[0] - clock.now()).total_seconds() + 0.001)
        assert tick(app) == 1
        assert app.drain() == 1
    assert ran == ["nightly"]
    with app.testing():
        assert app.schedule("nightly").last is None


@pytest.fixture
def killable(request: pytest.FixtureRequest, tmp_path) -> Iterator[tuple[Stanchion, Start]]:
    """A store, and a function that starts a worker on it whose clock runs fast."""
    url = request.getfixturevalue(request.param) if request.param else f"sqlite:///{tmp_path}/jobs.db?synchronous=off"
    (tmp_path / "jobs.py").write_text(textwrap.dedent(JOBS))
    environment = {**os.environ, "JOBS_URL": url, "JOBS_BEGAN": str(time.time())}
    code = (
        "import sys; from stanchion.service.process import *; "
        "sys.exit(run_worker_process(WorkerSettings('jobs:app', threads=1, heartbeat=600.0, grace=5.0)))"
    )
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("ab") as log:
            started.append(subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment, stderr=log))
        return started[-1]

    app = Stanchion(url)
    app.setup()
    yield app, start
    for process in started:
        process.kill()
        process.wait()
    app.close()


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("killable", ["", "pg_url", "redis_url"], ids=["sqlite", "postgresql", "redis"], indirect=True)
def test_each_tick_has_one_job_though_schedulers_are_killed_around_it(killable: tuple[Stanchion, Start]) -> None:
    app, start = killable
    dice = random.Random(11)
    workers = [start() for _ in range(3)]
    until(lambda: app.schedules() and app.schedules()[0].last)
    killed = 0
    while len(fired(app)) < TICKS or killed < 5:
        before = len(fired(app))
        until(lambda: len(fired(app)) > before)  # noqa: B023 - called here
        time.sleep(max(0.0, dice.uniform(0.9, 1.05) - 0.1))  # a minute of the store is a second of ours
        victim = workers.pop(0)
        victim.kill()
        victim.wait()
        killed += 1
        workers.append(start())
    for worker in workers:
        worker.kill()
        worker.wait()
    found = Counter(fired(app))
    first, last = (datetime.fromisoformat(tick) for tick in (min(found), max(found)))
    minutes = round((last - first) / timedelta(minutes=1)) + 1
    assert killed >= 5
    assert len(found) == minutes >= TICKS
    assert set(found.values()) == {1}


def fired(app: Stanchion) -> list[str]:
    """Return the ticks that have a job."""
    return [job.headers["x-cron-tick"] for job in app.find(task="minutely", state=list(JobState), limit=10_000)]
