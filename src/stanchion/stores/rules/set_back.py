"""A database clock that was set back: earlier writes lie in its future.

A time ahead of the clock by more than the duration of a call counts as now, when first read, and is rewritten:
otherwise a worker that died before would look alive until the clock has caught up. Due times stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.workers import WorkerRow

AHEAD = 10 * SECOND
"""Microseconds that a time may be ahead of a clock read before it, as calls take some seconds."""


def is_ahead(at: int | None, now: int) -> bool:
    """Return whether a time is from before the clock was set back."""
    return at is not None and at > now + AHEAD


def is_overdue(at: int, now: int, micros: int) -> bool:
    """Return whether a step begun at a time is older than this, or from before the clock was set back."""
    return at < now - micros or is_ahead(at, now)


def seen_now(workers: Iterable[WorkerRow], now: int) -> list[WorkerRow]:
    """Return the workers whose heartbeat is from the future, as seen now."""
    return [replace(one, last_seen_at=now) for one in workers if is_ahead(one.last_seen_at, now)]


def started_now(row: JobRow, now: int) -> JobRow | None:
    """Return a job that is held by a lease from the future, as reserved now for as long; None for any other."""
    if row.state != JobState.RUNNING or row.lease_until is None or not is_ahead(row.started_at, now):
        return None
    return row._replace(started_at=now, lease_until=now + row.lease_until - (row.started_at or now))


class Watch:
    """Detects in one process whether the clock may have been set back since its last reading.

    `at_first`: decides for the first reading, because other processes may have checked for times from the future.
    """

    def __init__(self, at_first: Callable[[int], bool] = lambda _now: True) -> None:
        self._latest: int | None = None
        self._at_first = at_first

    def set_back(self, now: int) -> bool:
        """Record a reading; return whether it is far before the last one."""
        back = self._at_first(now) if self._latest is None else is_ahead(self._latest, now)
        self._latest = now
        return back
