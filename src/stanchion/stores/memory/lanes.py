"""Delivery order of a queue's jobs: by rank within a lane, round-robin between lanes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import NamedTuple, Self

from stanchion.stores.records.jobs import QUEUED, UNLANED, JobRow

LaneRange = tuple[int, int] | None
"""The first and the last lane of a range; None for all."""


class _Entry(NamedTuple):
    """A queued job in a heap: sorted by due time or, for due jobs, by `before`."""

    run_at: int
    id: str
    before: int
    lane: int

    @classmethod
    def of(cls, row: JobRow) -> Self:
        return cls(row.run_at, row.id, -row.rank, row.lane)


class DueJobs:
    """The queued jobs among the `live` ones of a queue.

    Heap entries are never searched and removed: an entry that no longer describes its job is dropped at the top.
    """

    def __init__(self, live: Mapping[str, JobRow]) -> None:
        self._live = live
        self._scheduled: list[_Entry] = []
        self._ready: dict[int, list[tuple[int, _Entry]]] = {}
        self._last_lanes: dict[LaneRange, int] = {}

    def add(self, row: JobRow) -> None:
        """Add a job that is queued, or will be with the same schedule."""
        heappush(self._scheduled, _Entry.of(row))

    def each(self, now: int, lanes: LaneRange, min_rank: int) -> Iterator[JobRow]:
        """Yield the due jobs of the lanes with at least this rank, in order.

        The caller changes the state of each before the next.
        """
        while self._scheduled and self._scheduled[0].run_at <= now:
            entry = heappop(self._scheduled)
            if self._queued(entry):
                heappush(self._ready.setdefault(entry.lane, []), (entry.before, entry))
        while (row := self._next(now, lanes, min_rank)) is not None:
            yield row

    def advance(self, lanes: LaneRange, lane: int) -> None:
        """Set the round-robin offset of a range: the lane after this one is next."""
        self._last_lanes[lanes] = lane

    def _next(self, now: int, lanes: LaneRange, min_rank: int) -> JobRow | None:
        first, last = lanes or (min(self._ready, default=0), max(self._ready, default=0))
        within = sorted(lane for lane in self._ready if first <= lane <= last)
        offset = bisect_right(within, self._last_lanes.get(lanes, UNLANED))
        heads = (self._head(lane, now) for lane in within[offset:] + within[:offset])
        return next((row for row in heads if row is not None and row.rank >= min_rank), None)

    def _head(self, lane: int, now: int) -> JobRow | None:
        ready = self._ready[lane]
        while ready:
            _, entry = ready[0]
            row = self._queued(entry)
            if row is not None and entry.run_at <= now:
                return row
            heappop(ready)
            if row is not None:  # the clock was set back
                heappush(self._scheduled, entry)
        del self._ready[lane]
        return None

    def _queued(self, entry: _Entry) -> JobRow | None:
        row = self._live.get(entry.id)
        return row if row is not None and row.state == QUEUED and _Entry.of(row) == entry else None
