"""The pace of a claimer: poll intervals, prefetch, and pick-up delays."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from statistics import quantiles

from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow

JITTER = 0.2
"""Share by which a poll interval varies up and down, so that workers do not poll in step."""


def poll_interval(poll: float, sharing: int) -> float:
    """Return the seconds until one worker polls again if `sharing` workers together poll every `poll` seconds."""
    return poll * max(1, sharing) * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreading load


class Prefetch:
    """How many jobs to reserve beyond the running ones: as many as finish within `window` seconds.

    Trivial jobs then arrive in batches of hundreds, while slow ones stay in the store for other workers. The window
    is shorter for queues with lanes, as a new tenant has to wait until the prefetched jobs are done.
    """

    WINDOW, WINDOW_OF_LANES = 0.05, 0.01

    SAMPLE = 0.01
    """The shortest time in seconds for measuring a rate."""

    MEMORY = 0.1
    """Seconds after which an earlier rate is ignored."""

    BYTES = 2**24
    """The most bytes of chunks to reserve beyond the running ones, by the mean size of the jobs claimed last."""

    def __init__(self, window: float = WINDOW, most: int = 1000) -> None:
        self._window, self._most = window, most
        self.size = 0.0
        """Bytes of chunks per job of the last claim; 0 if it had none."""
        self._at: float | None = None
        self._finished = 0
        self.rate = 0.0
        """Jobs finished per second, lately."""

    def claimed(self, lane: int, size: float = 0.0) -> None:
        """Record the lane of the last job claimed, and the mean bytes of chunks."""
        self.size = size
        self._window = self.WINDOW if lane == UNLANED else self.WINDOW_OF_LANES

    def jobs(self, finished: int, now: float) -> int:
        """Return the number of jobs to prefetch. `finished`: jobs ended so far; `now`: on the monotonic clock."""
        if self._at is None:
            self._at, self._finished = now, finished
        elif (elapsed := now - self._at) >= self.SAMPLE:
            latest = (finished - self._finished) / elapsed
            self.rate += (latest - self.rate) * min(1.0, max(0.5, elapsed / self.MEMORY))
            self._at, self._finished = now, finished
        jobs = min(int(self.rate * self._window), self._most)
        return self.fitting(self.BYTES, jobs) if self.size else jobs

    def fitting(self, size: int, jobs: int) -> int:
        """Return how many of these jobs, of the present mean size, have so many bytes of chunks at most."""
        return min(jobs, int(size / self.size)) if self.size else jobs


DELAYS_MAX = 1000
"""Jobs remembered for each queue."""


class PickupDelays:
    """The pick-up delays of the latest jobs, by queue. One thread adds, any thread may read."""

    def __init__(self) -> None:
        self._delays: dict[str, deque[int]] = {}

    def add(self, queue: str, rows: Iterable[JobRow]) -> None:
        """Record the delays of claimed jobs."""
        latest = self._delays.setdefault(queue, deque(maxlen=DELAYS_MAX))
        latest.extend((row.started_at or row.run_at) - row.run_at for row in rows)

    def figures(self) -> dict[str, dict[str, object]]:
        """Return for each queue the number of jobs, and their delays in seconds: median, 99th percentile, maximum."""
        return {queue: _summary(sorted(latest.copy())) for queue, latest in self._delays.copy().items() if latest}


def _summary(delays: list[int]) -> dict[str, object]:
    cuts = quantiles(delays, n=100, method="inclusive") if len(delays) > 1 else delays * 99
    middle, high, most = (max(0, each) / SECOND for each in (cuts[49], cuts[98], delays[-1]))
    return {"jobs": len(delays), "p50": round(middle, 6), "p99": round(high, 6), "max": round(most, 6)}
