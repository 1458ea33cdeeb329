"""Expired leases that can't be freed, as another transaction has locked their jobs."""

from __future__ import annotations

import time

REMEMBERED_SECONDS = 1.0


class LockedLeases:
    """Remember for a moment the time up to which all expired leases were freed, except for locked jobs.

    A claim frees expired leases first, by a slower route. While somebody's open transaction commits a job whose lease
    has expired, that frees nothing, and would slow down every claim of every queue.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """`seconds`: how long they are remembered; None: REMEMBERED_SECONDS."""
        self._seconds = seconds
        self._now = self._until = 0
        self._remembered_at = 0.0

    def suspect(self, now: int) -> None:
        """Take note that leases may have expired by now, a time of the database's clock: they will be freed."""
        self._now = now

    def confirm(self) -> None:
        """Record that all of these are freed, except for locked jobs."""
        self._until, self._remembered_at = self._now, time.monotonic()

    @property
    def until(self) -> int:
        """Time up to which expired leases are ignored; 0: none."""
        seconds = REMEMBERED_SECONDS if self._seconds is None else self._seconds
        return self._until if time.monotonic() - self._remembered_at < seconds else 0
