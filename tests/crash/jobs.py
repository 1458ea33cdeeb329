"""The app of the worker processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from stanchion import Job, Retry, Stanchion
from stanchion.context import steadiness
from stanchion.jobs.reservation import Reservation
from stanchion.stores.registry import open_store
from tests.crash.doom import doomed
from tests.crash.journal import Journal
from tests.crash.producer import QUEUE
from tests.crash.recording import recorded

# The quick workers of these tests try again every second, and every five in life.
steadiness.RETURN = 3.0

journal = Journal(Path(os.environ["CRASH_JOURNAL"]))
url = os.environ["STANCHION_URL"]
app = Stanchion(url, store=recorded(doomed(open_store(url), os.environ.get("CRASH_FATE")), journal))


@app.task(name="work", queue=QUEUE)
def work(job: Job, seconds: float) -> None:
    _started(job)
    time.sleep(seconds)


@app.task(name="fatal", queue=QUEUE, max_attempts=3, retry=Retry.constant(0.2))
def fatal(job: Job) -> None:
    _started(job)
    os.kill(os.getpid(), signal.SIGKILL)


@app.on("done")
def succeeded(job: Reservation) -> None:
    journal.note("succeeded", job.id, token=job.token, attempt=job.attempt)


def _started(job: Job) -> None:
    assert isinstance(job, Reservation)
    journal.note("started", job.id, token=job.token, attempt=job.attempt)
