"""The figures of the last hour, of one queue or of all."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts, Sizes

HOUR: Final = 3600 * SECOND
STEP: Final = 30 * SECOND
"""Microseconds between two points that are kept: 120 of an hour."""


class Point(NamedTuple):
    """Figures at a time of the store's clock; counts since the queue was made. `lag`: of the oldest ready job, in s."""

    at: int
    ready: int
    lag: float
    pushed: int
    done: int
    failed: int
    dead: int


class Rates(NamedTuple):
    """Jobs a second."""

    pushed: float
    done: float
    failed: float
    dead: float


def point_of(at: int, sizes: Sizes, totals: Counts, lag: float) -> Point:
    """Return the figures of a queue as a point."""
    done = totals.committed + totals.popped + totals.moved
    failed = totals.rolled_back + totals.expired
    return Point(at, sizes.ready, lag, totals.pushed, done, failed, totals.buried)


def sum_of(points: list[Point], at: int) -> Point:
    """Return the figures of several queues together."""
    if not points:
        return Point(at, 0, 0.0, 0, 0, 0, 0)
    return Point(
        at,
        sum(one.ready for one in points),
        max(one.lag for one in points),
        *(sum(column) for column in zip(*(one[3:] for one in points), strict=True)),
    )


class Track:
    """Points of the last hour, one for each STEP, and the newest."""

    def __init__(self) -> None:
        self._kept: deque[Point] = deque()
        self.newest: Point | None = None
        self._before: Point | None = None

    def add(self, point: Point) -> None:
        """Add the newest point."""
        if self.newest is not None and point.at <= self.newest.at:
            return
        self._before, self.newest = self.newest, point
        if not self._kept or point.at - self._kept[-1].at >= STEP:
            self._kept.append(point)
        while self._kept and self._kept[0].at < point.at - HOUR:
            self._kept.popleft()

    @property
    def points(self) -> list[Point]:
        """The points, oldest first, the newest too."""
        kept = list(self._kept)
        return [*kept, self.newest] if self.newest is not None and kept[-1:] != [self.newest] else kept

    @property
    def rates(self) -> Rates | None:
        """The rates between the two newest points; None before there are two."""
        return None if self._before is None or self.newest is None else between(self._before, self.newest)


def between(before: Point, after: Point) -> Rates:
    """Return the rates between two points; a queue that was deleted meanwhile has none."""
    seconds = max((after.at - before.at) / SECOND, 1e-6)
    return Rates(*(max(0, now - then) / seconds for then, now in zip(before[3:], after[3:], strict=True)))
