"""One queue in memory: its settings, its counts, its jobs, and the order in which it delivers them.

It delivers jobs by rank within a lane, and round-robin between lanes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple, Self

from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import ORDER
from stanchion.stores.rules.capacity.rate_limit import Bucket
from stanchion.stores.rules.capacity.shapes import FEW, reshaped, shaped
from stanchion.stores.rules.capacity.slots import is_granted
from stanchion.stores.rules.upkeep import Expiring, Use

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


class Queue:
    """One queue: its settings, its counts, its live jobs and its history."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self.live: dict[str, JobRow] = {}
        self.history: dict[str, JobRow] = {}
        self.keys: dict[str, str] = {}
        self.ended_keys: dict[str, str] = {}
        """The finished job that had a key last, unless it was cancelled."""
        self.running: set[str] = set()
        self.due = DueJobs(self.live)
        self.last_use: Use | None = None
        self.head: str | None = None
        """Of an ordered queue: the job that no other may overtake while it is live here."""
        self._leases: list[tuple[int, str]] = []
        self._bucket = Bucket(1.0, 0.0, 0)

    def put(self, row: JobRow) -> None:
        """Add or replace a live job."""
        self.settings = shaped(self.settings, row)
        self.live[row.id] = row
        if row.key is not None:
            self.keys[row.key] = row.id
        if row.state == JobState.RUNNING:
            self.running.add(row.id)
            if row.lease_until is not None:
                heappush(self._leases, (row.lease_until, row.id))
        else:
            self.running.discard(row.id)
            self.due.add(row)

    def remove(self, row: JobRow) -> None:
        """Remove a job, live or finished."""
        if self.history.pop(row.id, None) and self.ended_keys.get(row.key or "") == row.id:
            del self.ended_keys[row.key or ""]
        self.running.discard(row.id)
        if self.live.pop(row.id, None) and row.key is not None:
            del self.keys[row.key]

    def expired(self, now: int) -> Iterator[JobRow]:
        """Yield the running jobs whose lease ran out; the caller takes each back before the next."""
        while self._leases and self._leases[0][0] <= now:
            lease_until, job_id = self._leases[0]
            row = self.live.get(job_id)
            if row is not None and row.state == JobState.RUNNING and row.lease_until == lease_until:
                yield row
            else:
                heappop(self._leases)

    def allowance(self, wanted: int, now: int) -> tuple[int, float | None]:
        """Return how many jobs may start now and, if the rate allows no more, the seconds to the next start."""
        if self.settings.paused:
            return 0, None
        if (most := self.settings.running_max) is not None:
            wanted = max(0, min(wanted, most - len(self.running)))
        rate = self.settings.max_rate
        if rate is None:
            return wanted, None
        self._bucket = replace(self._bucket, rate=rate).at(now)
        starts = self._bucket.whole
        if starts >= wanted:
            return wanted, None
        return starts, self._bucket.spent(starts).next_in

    def due_among(self, ids: Iterable[str], now: int) -> Iterator[JobRow]:
        """Yield the due jobs among these, in the order of the ids; the caller changes each before the next."""
        return (row for row in self.queued_among(ids) if row.run_at <= now)

    def queued_among(self, ids: Iterable[str]) -> Iterator[JobRow]:
        """Yield the queued jobs among these, due or not, as `due_among` does."""
        for job_id in ids:
            row = self.live.get(job_id)
            if row is not None and row.state == QUEUED:
                yield row

    def due_head(
        self, now: int, lanes: LaneRange, min_rank: int, among: Collection[str] | None = None
    ) -> Iterator[JobRow]:
        """Yield the next job of an ordered queue if it is due: the head, or else the first, which becomes the head.

        `among`: only if it is one of these; None: any.
        """
        candidates = self._due_head(now, lanes, min_rank, among)
        return candidates if among is None else (row for row in candidates if row.id in among)

    def _due_head(self, now: int, lanes: LaneRange, min_rank: int, among: Collection[str] | None) -> Iterator[JobRow]:
        head = self.live.get(self.head or "")
        if head is None:
            for row in islice(self.due.each(now, lanes, min_rank), 1):
                if among is not None and row.id not in among:
                    return
                self.head = row.id
                yield row
        elif head.rank < min_rank:
            return
        elif head.state == QUEUED and head.run_at <= now and (lanes is None or lanes[0] <= head.lane <= lanes[1]):
            yield head
        head = self.live.get(self.head or "")
        if head is not None and head.state == JobState.WAITING:
            # A job from before the queue was ordered may hold the slot that the head waits for.
            due = (row for row in self.live.values() if row.slots_held and row.state == QUEUED and row.run_at <= now)
            of_key = head.waits_for is not None and head.waits_for.kind == ORDER
            held = (row for row in due if (row.order_key == head.order_key if of_key else is_granted(row)))
            yield from islice(held, 1)

    def until_head(self, now: int) -> float | None:
        """Return the seconds until the head of an ordered queue is due, if the others wait for that."""
        head = self.live.get(self.head or "") if self.settings.ordered else None
        early = head is not None and head.state == QUEUED and head.run_at > now
        return (head.run_at - now) / SECOND if early and head is not None else None

    def started(self, items: int, *, counted: bool) -> None:
        """Count delivered items, and take their starts from the rate."""
        if counted:
            self.counts["reserved"] += items
        if self.settings.max_rate is not None:
            self._bucket = self._bucket.spent(items)

    def reshape(self) -> None:
        """Reset the shape to the needs of the live jobs, if these are few."""
        if len(self.live) <= FEW:
            self.settings = reshaped(self.settings, self.live.values())

    def outlived(self, now: int) -> bool:
        """Record use since the last call; return True if the queue has expired."""
        known = Expiring(self.settings, self.counts.total(), self.last_use)
        if self.settings.expires is None:
            return False
        self.last_use = known.to_record(now) or self.last_use
        busy = self.running if self.settings.expires_with_jobs else self.live
        return known.unused(now) is not None and not busy
