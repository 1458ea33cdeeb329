"""What a station has done so far."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterable

_WIDTH = math.log(1.02)
_SHORTEST = 1e-4


class Delays:
    """A histogram of seconds whose buckets are 2 % wide, so that its size does not grow with what it holds."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Count one delay."""
        self._buckets[round(math.log(max(seconds, _SHORTEST)) / _WIDTH)] += 1

    def within(self, share: float) -> float | None:
        """Return the seconds that this share of the delays took at most; None when there are none."""
        wanted = share * self._buckets.total()
        for bucket in sorted(self._buckets):
            wanted -= self._buckets[bucket]
            if wanted <= 0:
                return math.exp(bucket * _WIDTH)
        return None


class Meter:
    """Counts jobs and their pick-up delays; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: float | None = None
        self._ended = 0.0
        self.jobs = 0
        self.delays = Delays()

    def begin(self, pickup_delays: Iterable[float | None] = ()) -> None:
        """Note that work begins, on jobs that waited this many seconds."""
        with self._lock:
            if self._began is None:
                self._began = self._ended = time.perf_counter()
            for delay in pickup_delays:
                if delay is not None:
                    self.delays.add(delay)

    def passed(self, jobs: int = 1) -> None:
        """Count jobs that are through."""
        with self._lock:
            self.jobs += jobs
            self._ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time from the first begin to the last job."""
        return 0.0 if self._began is None else self._ended - self._began

    @property
    def rate(self) -> float | None:
        """Jobs per second; None before there is anything to tell."""
        return self.jobs / self.seconds if self.seconds else None
