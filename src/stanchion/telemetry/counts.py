"""Counters of a worker: attempts by outcome, their run times and pick-up delays.

Runners append to a queue in memory, without the cost of a lock; one thread at a time sums the entries. The sums have a
JSON form, in which processes leave them for their supervisor.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Self

from stanchion.core.names.partition_names import logical_name
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.outcomes import Outcome

RUN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 90.0, 300.0, 600.0, 3600.0)
DELAY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 180.0, 600.0, 5400.0, 14_400.0)
"""Seconds. The limits of the priority bands are among them, so that the share that keeps its service level is exact."""

_OUTCOMES: Mapping[type, str] = {
    outcomes.Commit: "done",
    outcomes.Move: "moved",
    outcomes.Bury: "dead",
    outcomes.Abandon: "cancelled",
    outcomes.Continue: "continued",
}

Histogram = list[float]
"""Observations by bucket, those beyond the last bound, and the sum of all."""

Labels = tuple[str, ...]


class Sums:
    """Sums by labels. Not to be used by two threads concurrently."""

    def __init__(self) -> None:
        self.attempts: dict[Labels, float] = {}
        self.run: dict[Labels, Histogram] = {}
        self.delay: dict[Labels, Histogram] = {}
        self.dead: dict[Labels, float] = {}
        self.lost: dict[Labels, float] = {(): 0.0}
        self.gauges: dict[Labels, float] = {}

    def ended(self, queue: str, task: str, outcome: str, seconds: float, delay: float) -> None:
        """Add an attempt."""
        key = queue, task, outcome
        self.attempts[key] = self.attempts.get(key, 0.0) + 1.0
        _observe(self.run, (queue, task), RUN_BUCKETS, seconds)
        _observe(self.delay, (queue,), DELAY_BUCKETS, delay)

    def add(self, other: Sums, *, gauges: bool = True) -> None:
        """Add the sums of another process; `gauges`: also its present activity."""
        for mine, theirs in ((self.attempts, other.attempts), (self.dead, other.dead), (self.lost, other.lost)):
            for key, value in theirs.items():
                mine[key] = mine.get(key, 0.0) + value
        for own, others in ((self.run, other.run), (self.delay, other.delay)):
            for key, values in others.items():
                own[key] = [a + b for a, b in zip(own.get(key) or [0.0] * len(values), values, strict=True)]
        for key, value in other.gauges.items() if gauges else ():
            known = self.gauges.get(key)
            worst = key == ("healthy",)
            self.gauges[key] = value if known is None else min(known, value) if worst else known + value

    def text(self) -> str:
        """Return the sums as JSON."""
        return json.dumps({name: [[*key, value] for key, value in of.items()] for name, of in vars(self).items()})

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the sums in a JSON text."""
        found = cls()
        for name, entries in json.loads(text).items():
            setattr(found, name, {tuple(key): value for *key, value in entries})
        return found


class JobCounts:
    """The sums of one worker. Any thread may call."""

    def __init__(self) -> None:
        self._pending: deque[tuple[JobRow, float, Outcome | None]] = deque()
        self._adding = threading.Lock()
        self._sums = Sums()

    def ended(self, row: JobRow, seconds: float, outcome: Outcome | None) -> None:
        """Record the end of an attempt that ran for `seconds`; None: the task settled its job itself."""
        self._pending.append((row, seconds, outcome))

    def stored(self, queues: Sequence[str | None], states: Sequence[JobState | None]) -> None:
        """Record what became of attempts that are stored: the queues of their jobs, and their states."""
        with self._adding:
            for queue, state in zip(queues, states, strict=True):
                if state is None:
                    self._sums.lost[()] += 1.0
                elif state is JobState.DEAD and queue is not None:
                    key = (logical_name(queue),)
                    self._sums.dead[key] = self._sums.dead.get(key, 0.0) + 1.0

    def fold(self) -> None:
        """Add up the attempts that have ended since."""
        with self._adding:
            ended, taken = self._sums.ended, self._pending.popleft
            for _ in range(len(self._pending)):
                row, seconds, outcome = taken()
                delay = max(0, (row.started_at or row.run_at) - row.run_at) / SECOND
                ended(logical_name(row.queue), row.task or "", name_of(outcome), seconds, delay)

    def sums(self, **gauges: float) -> Sums:
        """Return a copy of the sums, with the worker's present activity."""
        self.fold()
        found = Sums()
        with self._adding:
            found.add(self._sums)
        found.gauges = {(name,): value for name, value in gauges.items()}
        return found


def name_of(outcome: Outcome | None) -> str:
    """Return the name of an outcome, as a label; of a job that passes queues, how it leaves the last one."""
    if isinstance(outcome, outcomes.Pass):
        return name_of(outcome.then)
    if (name := _OUTCOMES.get(type(outcome))) is not None:
        return name
    if isinstance(outcome, outcomes.Rollback):
        return "released" if outcome.refund or outcome.error is None else "failed"
    return "settled" if outcome is None else "other"


def _observe(found: dict[Labels, Histogram], key: Labels, bounds: Sequence[float], value: float) -> None:
    histogram = found.get(key)
    if histogram is None:
        histogram = found[key] = [0.0] * (len(bounds) + 2)
    histogram[bisect_left(bounds, value)] += 1.0
    histogram[-1] += value


def sums_in(text: str) -> Sums:
    """Return the sums in a text; none if a process was killed while it wrote it."""
    try:
        return Sums.of(text)
    except (ValueError, TypeError, AttributeError):
        return Sums()


def buckets_of(histogram: Histogram, bounds: Sequence[float]) -> tuple[list[tuple[str, float]], float]:
    """Return the cumulative buckets of a histogram, as Prometheus has them, and its sum."""
    total, buckets = 0.0, []
    for bound, count in zip((*map(str, bounds), "+Inf"), histogram, strict=False):
        total += count
        buckets.append((bound, total))
    return buckets, histogram[-1]
