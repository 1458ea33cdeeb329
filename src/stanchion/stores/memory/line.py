"""One queue in memory: its settings and counts, its jobs, and the order in which they are handed out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

from stanchion.stores.records import QUEUED, JobRow, JobState, QueueSettings
from stanchion.stores.throttle import Bucket


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
        self.keys: dict[str, str] = {}
        self.running: set[str] = set()
        self._ready: list[tuple[int, int, str]] = []
        self._scheduled: list[tuple[int, int, str]] = []
        self._leases: list[tuple[int, str]] = []
        self._bucket = Bucket(1.0, 0.0, 0)

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
            heappush(self._scheduled, (row.run_at, -row.priority, row.id))

    def remove(self, row: JobRow) -> None:
        """Take a job out, live or finished."""
        self.history.pop(row.id, None)
        self.running.discard(row.id)
        if self.live.pop(row.id, None) and row.key is not None:
            del self.keys[row.key]

    def due(self, now: int) -> Iterator[JobRow]:
        """Yield the jobs to hand out, in order; the caller changes the state of each before the next."""
        while self._scheduled and self._scheduled[0][0] <= now:
            run_at, rank, job_id = heappop(self._scheduled)
            if self._queued(job_id, rank, run_at):
                heappush(self._ready, (rank, run_at, job_id))
        while self._ready:
            rank, run_at, job_id = self._ready[0]
            row = self._queued(job_id, rank, run_at)
            if row is not None and run_at <= now:
                yield row
                continue
            heappop(self._ready)
            if row is not None:  # the clock was set back
                heappush(self._scheduled, (run_at, rank, job_id))

    def expired(self, now: int) -> Iterator[JobRow]:
        """Yield the running jobs whose lease ran out; the caller takes back each before the next."""
        while self._leases and self._leases[0][0] <= now:
            lease_until, job_id = self._leases[0]
            row = self.live.get(job_id)
            if row is not None and row.state == JobState.RUNNING and row.lease_until == lease_until:
                yield row
            else:
                heappop(self._leases)

    def _queued(self, job_id: str, rank: int, run_at: int) -> JobRow | None:
        row = self.live.get(job_id)
        if row is None or (row.state, -row.priority, row.run_at) != (QUEUED, rank, run_at):
            return None
        return row

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
