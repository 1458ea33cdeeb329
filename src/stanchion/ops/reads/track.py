"""The figures of the last hour, of one queue or of all."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from stanchion.stores.records.jobs import SECOND
from stanchion.telemetry.rollups import MINUTE, Point

HOUR: Final = 3600 * SECOND
STEP: Final = 30 * SECOND
"""Microseconds between two points that are kept: 120 of an hour."""


FAILED_IN: Final = 300 * SECOND
"""The window over which failed attempts are counted."""


class Rates(NamedTuple):
    """Jobs a second."""

    pushed: float
    done: float
    failed: float
    dead: float


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

    @property
    def failed(self) -> float | None:
        """The share of the attempts of the last five minutes that failed; None if none is known to have ended."""
        after = self.newest
        if after is None:
            return None
        begin = after.at - FAILED_IN - MINUTE  # points of the past are a minute apart
        before = next(one for one in self.points if one.at >= begin)
        failed = after.failed - before.failed + after.dead - before.dead
        ended = failed + after.done - before.done
        return failed / ended if 0 <= failed <= ended and ended else None


def between(before: Point, after: Point) -> Rates:
    """Return the rates between two points; a queue that was deleted meanwhile has none."""
    seconds = max((after.at - before.at) / SECOND, 1e-6)
    return Rates(*(max(0, now - then) / seconds for then, now in zip(before[3:], after[3:], strict=True)))
