"""How long jobs of the last five minutes waited until a worker took them, and how long attempts ran, by queue and band.

A worker keeps them in logarithmic buckets, a slice for each half minute, and reports the sums with its heartbeat: no
job costs a write or a statement. Readers add up the live workers' reports. A worker's times are lost with it.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from stanchion.core.names.partition_names import logical_name
from stanchion.core.service_levels import band_of
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.workers import QueueTimes, WorkerRow
from stanchion.stores.rules.leases.liveness import alive
from stanchion.stores.rules.times import BOUNDS, ENTRIES_MAX, added, quantile

SLICE: Final = 30.0
"""Seconds of a slice."""

SLICES: Final = 10

_MICROS: Final = tuple(round(bound * SECOND) for bound in BOUNDS)

_Key = tuple[str, int]
"""A physical queue and a priority."""

_Slice = dict[_Key, tuple[Counter[int], Counter[int]]]
"""The numbers of delays and of runs by bucket."""


class JobTimes:
    """The times of one worker. Any thread may call. `clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended: deque[tuple[str, int, float]] = deque()
        self.ended: Callable[[tuple[str, int, float]], None] = self._ended.append
        """Adds an attempt: its queue, its priority, and the seconds that it ran. Built in: it takes no frame."""
        self._adding = threading.Lock()
        self._slices: deque[tuple[float, _Slice]] = deque()

    def claimed(self, rows: Sequence[JobRow]) -> None:
        """Add jobs of a queue that the worker has just taken."""
        queue, priorities = rows[0].queue, {row.priority for row in rows}
        with self._adding:
            of = self._current()
            for priority in priorities:
                some = rows if len(priorities) == 1 else [row for row in rows if row.priority == priority]
                waited = [(row.started_at or row.run_at) - row.run_at for row in some]
                _of(of, (queue, priority))[0].update(map(bisect_left, repeat(_MICROS), waited))

    def fold(self) -> None:
        """Add up the attempts that have ended since."""
        with self._adding:
            ended = [self._ended.popleft() for _ in range(len(self._ended))]
            if not ended:
                return
            queues, priorities, seconds = zip(*ended, strict=True)
            counted = Counter(zip(queues, priorities, map(bisect_left, repeat(BOUNDS), seconds), strict=False))
            of = self._current()
            for (queue, priority, bucket), number in counted.items():
                _of(of, (queue, priority))[1][bucket] += number

    def recent(self) -> tuple[QueueTimes, ...]:
        """Return the times of the last five minutes, of the busiest queues and bands."""
        self.fold()
        sums: dict[tuple[str, str], tuple[Counter[int], Counter[int]]] = {}
        with self._adding:
            self._current()
            for _, of in self._slices:
                for (queue, priority), counted in of.items():
                    found = sums.setdefault((logical_name(queue), band_of(priority).name), (Counter(), Counter()))
                    for mine, theirs in zip(found, counted, strict=True):
                        mine.update(theirs)
        busiest = sorted(sums, key=lambda key: -max(of.total() for of in sums[key]))
        return tuple(QueueTimes(*key, *map(_listed, sums[key])) for key in busiest[:ENTRIES_MAX])

    def _current(self) -> _Slice:
        """Return the present slice; forget slices that are too old."""
        now = self._clock()
        if not self._slices or now - self._slices[-1][0] >= SLICE:
            self._slices.append((now, {}))
        while now - self._slices[0][0] >= SLICE * SLICES:
            self._slices.popleft()
        return self._slices[-1][1]


def _of(of: _Slice, key: _Key) -> tuple[Counter[int], Counter[int]]:
    found = of.get(key)
    if found is None:
        found = of[key] = Counter(), Counter()
    return found


def _listed(counted: Counter[int]) -> tuple[int, ...]:
    return tuple(counted[bucket] for bucket in range(max(counted, default=-1) + 1))


@dataclass(frozen=True, slots=True)
class Times:
    """The times of some jobs of the last five minutes, within 10 %; in seconds, None where there were none.

    `jobs`: taken by workers; `attempts`: that have ended.
    """

    delays: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()

    def plus(self, other: QueueTimes) -> Times:
        """Return the sums."""
        return Times(added(self.delays, other.delays), added(self.runs, other.runs))

    @property
    def known(self) -> bool:
        """Whether there were any."""
        return bool(self.delays or self.runs)

    @property
    def jobs(self) -> int:
        """Jobs that workers took."""
        return sum(self.delays)

    @property
    def attempts(self) -> int:
        """Attempts that ended."""
        return sum(self.runs)

    def delay(self, percent: int) -> float | None:
        """Return a percentile of the pick-up delay."""
        return quantile(self.delays, percent / 100)

    def run(self, percent: int) -> float | None:
        """Return a percentile of the run time."""
        return quantile(self.runs, percent / 100)

    def as_json(self) -> dict[str, float | int | None]:
        """Return it as JSON values."""
        return {
            "jobs": self.jobs,
            "attempts": self.attempts,
            "pickup_p50": _rounded(self.delay(50)),
            "pickup_p95": _rounded(self.delay(95)),
            "run_p50": _rounded(self.run(50)),
            "run_p95": _rounded(self.run(95)),
        }


def by_queue(workers: Iterable[WorkerRow], now: int) -> dict[str, Times]:
    """Return the times that the live workers report, by queue."""
    return _summed(workers, now, lambda one: one.queue)


def by_band(workers: Iterable[WorkerRow], now: int) -> dict[str, Times]:
    """Return the same by band."""
    return _summed(workers, now, lambda one: one.band)


def _summed(workers: Iterable[WorkerRow], now: int, key: Callable[[QueueTimes], str]) -> dict[str, Times]:
    found: dict[str, Times] = {}
    for worker in workers:
        for one in worker.times if alive(worker, now) else ():
            name = key(one)
            found[name] = found.get(name, Times()).plus(one)
    return found


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds:.3g}")
