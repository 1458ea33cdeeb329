"""One queue in memory: its settings and counts, its jobs, and the order in which they are handed out."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple, Self

from stanchion.stores.records.jobs import QUEUED, UNLANED, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.expiry import Expiring, Use
from stanchion.stores.rules.rate_limit import Bucket

Lanes = tuple[int, int] | None
"""The first and the last lane of a range; None for all."""


class _Entry(NamedTuple):
    """A queued job in a heap: by when it is due, or, behind its rank, among those that are."""

    run_at: int
    id: str
    rank: int
    lane: int

    @classmethod
    def of(cls, row: JobRow) -> Self:
        return cls(row.run_at, row.id, -row.priority, row.lane)


class Line:
    """The jobs of one queue.

    Entries of a heap are never searched for and removed: one that no longer describes its job is
    dropped when it comes to the top.
    """

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self.live: dict[str, JobRow] = {}
        self.history: dict[str, JobRow] = {}
        self.used: Use | None = None
        self.keys: dict[str, str] = {}
        self.running: set[str] = set()
        self._ready: dict[int, list[tuple[int, _Entry]]] = {}
        self._served: dict[Lanes, int] = {}
        self._scheduled: list[_Entry] = []
        self._leases: list[tuple[int, str]] = []
        self._bucket = Bucket(1.0, 0.0, 0)

    def outlived(self, now: int) -> bool:
        """Note whether it was used since the last call; tell whether it is to be removed."""
        known = Expiring(self.settings, self.counts.total(), self.used)
        if self.settings.expires is None:
            return False
        self.used = known.to_note(now) or self.used
        busy = self.running if self.settings.expires_with_jobs else self.live
        return known.unused(now) is not None and not busy

    def put(self, row: JobRow) -> None:
        """Add a live job, or replace what is known of it."""
        self.live[row.id] = row
        if row.key is not None:
            self.keys[row.key] = row.id
        if row.state == JobState.RUNNING:
            self.running.add(row.id)
            if row.lease_until is not None:
                heappush(self._leases, (row.lease_until, row.id))
        else:
            self.running.discard(row.id)
            heappush(self._scheduled, _Entry.of(row))

    def remove(self, row: JobRow) -> None:
        """Take a job out, live or finished."""
        self.history.pop(row.id, None)
        self.running.discard(row.id)
        if self.live.pop(row.id, None) and row.key is not None:
            del self.keys[row.key]

    def due(self, now: int, lanes: Lanes = None) -> Iterator[JobRow]:
        """Yield the jobs to hand out, lane by lane; the caller changes the state of each before the next.

        It says `take_turn` for each that it hands out: the lane after that one is next.
        """
        while self._scheduled and self._scheduled[0].run_at <= now:
            entry = heappop(self._scheduled)
            if self._queued(entry):
                heappush(self._ready.setdefault(entry.lane, []), (entry.rank, entry))
        while (row := self._next(now, lanes)) is not None:
            yield row

    def take_turn(self, lanes: Lanes, lane: int) -> None:
        """Remember which lane was served last, of all or of this range."""
        self._served[lanes] = lane

    def _next(self, now: int, lanes: Lanes) -> JobRow | None:
        first, last = lanes or (min(self._ready, default=0), max(self._ready, default=0))
        served = self._served.get(lanes, UNLANED)
        within = sorted(lane for lane in self._ready if first <= lane <= last)
        turn = bisect_right(within, served)
        heads = (self._head(lane, now) for lane in within[turn:] + within[:turn])
        return next((row for row in heads if row is not None), None)

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

    def expired(self, now: int) -> Iterator[JobRow]:
        """Yield the running jobs whose lease ran out; the caller takes back each before the next."""
        while self._leases and self._leases[0][0] <= now:
            lease_until, job_id = self._leases[0]
            row = self.live.get(job_id)
            if row is not None and row.state == JobState.RUNNING and row.lease_until == lease_until:
                yield row
            else:
                heappop(self._leases)

    def _queued(self, entry: _Entry) -> JobRow | None:
        row = self.live.get(entry.id)
        return row if row is not None and row.state == QUEUED and _Entry.of(row) == entry else None

    def depths(self) -> Counter[int]:
        """Count the queued jobs of each lane."""
        return Counter(row.lane for row in self.live.values() if row.state == QUEUED)

    def allowance(self, wanted: int, now: int) -> tuple[int, float | None]:
        """Return how many jobs may start now and, where the rate forbids more, the seconds to the next."""
        if self.settings.paused:
            return 0, None
        if self.settings.max_running is not None:
            wanted = max(0, min(wanted, self.settings.max_running - len(self.running)))
        rate = self.settings.max_rate
        if rate is None:
            return wanted, None
        self._bucket = replace(self._bucket, rate=rate).at(now)
        permitted = self._bucket.whole
        if permitted >= wanted:
            return wanted, None
        return permitted, self._bucket.spent(permitted).next_in

    def started(self, counted: str, jobs: int) -> None:
        """Count jobs that were handed out, and take their permits."""
        self.counts[counted] += jobs
        if self.settings.max_rate is not None:
            self._bucket = self._bucket.spent(jobs)
