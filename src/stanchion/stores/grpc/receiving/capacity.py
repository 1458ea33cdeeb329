"""How many jobs a worker takes: what its claims have asked for lately."""

from __future__ import annotations

import time

_KEPT_SECONDS = 1.0


class Capacity:
    """The most that was asked for in the last one to two seconds: one claim may ask for less than the others."""

    def __init__(self) -> None:
        self._before = self._now = 0
        self._since = time.monotonic()

    def asked(self, jobs: int) -> None:
        """Take in how many jobs the worker would have after a claim that gets all that it asks for."""
        self._turn()
        self._now = max(self._now, jobs)

    @property
    def jobs(self) -> int:
        """Jobs that the worker takes in all."""
        return max(self._before, self._now)

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._since >= _KEPT_SECONDS:
            self._before, self._now, self._since = self._now, 0, now
