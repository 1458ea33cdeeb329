"""Rates and order keys as four worker processes keep them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from stanchion import Job, Stanchion
from tests.worker.conftest import until

JOBS = """
import time

from stanchion import Stanchion

app = Stanchion()

@app.task(name="brief", queue="work")
def brief(): ...

@app.task(name="timed", queue="work")
def timed():
    begin = time.monotonic()
    time.sleep(0.002)
    return begin, time.monotonic()
"""

pytestmark = pytest.mark.slow

RATE = 20
WINDOW = timedelta(seconds=1)
MOST = RATE + RATE // 10
"""Starts in any second: the rate, and what a full bucket holds."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    in_file = request.param == "sqlite"
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db" if in_file else request.getfixturevalue("pg_url"))
    app.setup()
    yield app
    app.close()


@pytest.fixture
def workers(app: Stanchion, tmp_path: Path) -> Iterator[None]:
    """Four processes that run what is due."""
    (tmp_path / "jobs.py").write_text(JOBS)
    code = "import sys; from stanchion.ops.cli import main; main()"
    supervisor = subprocess.Popen(
        [sys.executable, "-c", code, "worker", "jobs:app", "--processes", "4", "--threads", "2"],
        cwd=tmp_path,
        env={**os.environ, "STANCHION_URL": app.url},
        stderr=subprocess.DEVNULL,
    )
    until(lambda: len(app.workers()) == 4, 120)
    yield
    supervisor.send_signal(signal.SIGTERM)
    try:
        supervisor.wait(60)
    finally:
        supervisor.kill()


def starts(app: Stanchion, jobs: int) -> list[Job]:
    """Return the jobs by their starts, once all are done; each was started once."""
    queue = app.queue("work")
    until(lambda: queue.counts().committed == jobs, 120)
    found = sorted(queue.history(limit=1000), key=lambda job: (job.started_at, job.id))
    assert [job.attempts for job in found] == [1] * jobs
    return found


def check(jobs: list[Job]) -> None:
    """Check that in no second more began than may, and that little time was lost."""
    times = [job.started_at for job in jobs if job.started_at is not None]
    for first in times:
        assert sum(first <= time < first + WINDOW for time in times) <= MOST
    assert (times[-1] - times[0]).total_seconds() < 10 * len(times) / RATE


@pytest.mark.usefixtures("workers")
@pytest.mark.nightly
def test_the_rate_of_a_queue(app: Stanchion) -> None:
    app.queue("work").configure(max_rate=RATE)
    app.using("brief", queue="work").enqueue_many([()] * 60)
    check(starts(app, 60))


@pytest.mark.usefixtures("workers")
@pytest.mark.nightly
def test_the_rate_of_a_tenant(app: Stanchion) -> None:
    tenants = ["acme", "ajax"]
    for tenant in tenants:
        app.using("brief", queue="work", rate=f"{RATE}/s", rate_by="tenant", tenant=tenant).enqueue_many([()] * 50)
    jobs = starts(app, 100)
    for tenant in tenants:
        check([job for job in jobs if job.tenant == tenant])


@pytest.mark.usefixtures("workers")
@pytest.mark.nightly
def test_jobs_of_one_order_key(app: Stanchion) -> None:
    """By the clock of the machine: a claim may begin, and say so, before the key is free, and then wait for it."""
    handles = [app.using("timed", queue="work", order_key=f"key{n % 3}").enqueue() for n in range(60)]
    jobs = {job.id: job for job in starts(app, 60)}
    for key in range(3):
        mine = [jobs[handle.id].result for handle in handles[key::3]]
        for (_, end), (begin, _) in pairwise(mine):
            assert end < begin
