"""Alerts for late flights: tasks that fail now and then, the same ones on every run."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from stanchion.app import Stanchion
from stanchion.job import Job
from stanchion.ops.demo.flight import Landed
from stanchion.ops.demo.meter import Meter
from stanchion.retry import Retry
from stanchion.task import Task

MAX_ATTEMPTS = 4
_RETRY = Retry.exponential(base=0.1, max=1.0, max_attempts=MAX_ATTEMPTS)
_PRIORITY, _MORE_PER_HOUR, _TOP_PRIORITY = 60, 5, 100
_UNDELIVERABLE, _BUSY = 2, 20
"""Percent of the alerts that never get through, and that fail the first time."""


class Undelivered(Exception):
    """An alert that did not get through."""


class Alerts:
    """Raises alerts, and counts those that are done or dead."""

    def __init__(self, app: Stanchion, queue: str) -> None:
        self.raised = 0
        self.meter = Meter()
        self._task: Task[..., str] = app.task(name="demo.alert", queue=queue, retry=_RETRY)(alert)
        app.on("start")(lambda job: self.meter.begin([job.pickup_delay]))
        app.on("success")(lambda _job: self.meter.passed())
        app.on("dead")(lambda _job, _error: self.meter.passed())

    def enqueue(self, late: Landed, tx: Any) -> None:
        """Raise the alert of a late flight; the later it is, the more urgent."""
        minutes = late["arr_delay"] or 0
        priority = min(_PRIORITY + _MORE_PER_HOUR * (minutes // 60 - 1), _TOP_PRIORITY)
        self._task.using(priority=priority, tenant=late["carrier"], tx=tx).enqueue(late["flight"], minutes)
        self.raised += 1


def alert(flight: str, minutes: int, job: Job) -> str:
    """Tell the passengers; some have no address, and some servers are busy at the first attempt."""
    if trouble := trouble_with(flight, job.attempt):
        raise Undelivered(trouble)
    return f"{flight} is {minutes} minutes late"


def trouble_with(flight: str, attempt: int) -> str | None:
    """Return why this attempt fails, or None. It depends on nothing but the flight and the attempt."""
    lot = crc32(flight.encode()) % 100
    if lot < _UNDELIVERABLE:
        return f"nobody can be reached about {flight}"
    if lot < _UNDELIVERABLE + _BUSY and attempt == 1:
        return "the mail server is busy"
    return None
