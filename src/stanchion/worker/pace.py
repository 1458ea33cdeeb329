"""How often and how much: poll intervals, prefetch."""

from __future__ import annotations

import random

from stanchion.stores.records.jobs import UNLANED

JITTER = 0.2
"""Share by which a poll interval varies up and down, so that workers don't march in step."""


def poll_interval(poll: float, sharing: int) -> float:
    """Return the seconds until one worker polls again, when `sharing` workers together poll every `poll` seconds."""
    return poll * max(1, sharing) * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreading load


class Prefetch:
    """How many jobs to hold beyond those that run: what would be finished within `window` seconds.

    Trivial jobs then arrive in batches of hundreds, and slow ones stay in the store for other workers. The window is
    shorter where jobs come from lanes: what is held goes first, and a tenant that has just come waits for its end.
    """

    WINDOW, WINDOW_OF_LANES = 0.05, 0.01

    SAMPLE = 0.01
    """The shortest time in seconds that tells a rate."""

    MEMORY = 0.1
    """Seconds after which an earlier rate counts for nothing."""

    def __init__(self, window: float = WINDOW, most: int = 1000) -> None:
        self._window, self._most = window, most
        self._at: float | None = None
        self._finished = 0
        self.rate = 0.0
        """Jobs finished per second, lately."""

    def claimed(self, lane: int) -> None:
        """Take note of the lane that the last job came from."""
        self._window = self.WINDOW if lane == UNLANED else self.WINDOW_OF_LANES

    def jobs(self, finished: int, now: float) -> int:
        """Return the number of jobs, when `finished` ended so far, at `now` on a steady clock."""
        if self._at is None:
            self._at, self._finished = now, finished
        elif (elapsed := now - self._at) >= self.SAMPLE:
            latest = (finished - self._finished) / elapsed
            self.rate += (latest - self.rate) * min(1.0, max(0.5, elapsed / self.MEMORY))
            self._at, self._finished = now, finished
        return min(int(self.rate * self._window), self._most)
