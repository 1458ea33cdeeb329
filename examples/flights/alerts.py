"""Alerts for late flights: items that fail now and then, the same ones on every run."""

from __future__ import annotations

from typing import TypedDict
from zlib import crc32

from stanchion.core.retry import Retry
from stanchion.jobs.job import Job

MAX_ATTEMPTS = 4
RETRY = Retry.exponential(base=0.1, max=1.0, max_attempts=MAX_ATTEMPTS)
_PRIORITY, _MORE_PER_HOUR, _TOP_PRIORITY = 60, 5, 100
_UNDELIVERABLE, _BUSY = 2, 20
"""Percent of the alerts that never get through, and that fail the first time."""


class Undelivered(Exception):
    """An alert that did not get through."""

    def __init__(self, cause: str, flight: str) -> None:
        super().__init__(f"{flight}: {cause}")
        self.fingerprint = cause  # errors with the same cause are one group, whatever the flight


class Alert(TypedDict):
    """What there is to tell about a flight."""

    flight: str
    minutes: int


def urgency(minutes: int) -> int:
    """Return the priority of an alert: the later the flight, the more urgent."""
    return min(_PRIORITY + _MORE_PER_HOUR * (minutes // 60 - 1), _TOP_PRIORITY)


def tell(alert: Alert, job: Job) -> str:
    """Tell the passengers; some have no address, and some servers are busy at the first attempt."""
    if cause := trouble_with(alert["flight"], job.attempt):
        raise Undelivered(cause, alert["flight"])
    return f"{alert['flight']} is {alert['minutes']} minutes late"


def trouble_with(flight: str, attempt: int) -> str | None:
    """Return why this attempt fails, or None. It depends on nothing but the flight and the attempt."""
    lot = crc32(flight.encode()) % 100
    if lot < _UNDELIVERABLE:
        return "no passenger can be reached"
    if lot < _UNDELIVERABLE + _BUSY and attempt == 1:
        return "the mail server is busy"
    return None
