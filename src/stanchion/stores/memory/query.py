"""Reading: jobs by id and by conditions, and what there is of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from heapq import nlargest

from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.records.jobs import QUEUED, JobRow
from stanchion.stores.records.query import Find, Scan
from stanchion.stores.records.queues import Counts, QueueStats, Sizes, Stat
from stanchion.stores.rules.jobs import stored_state_of
from stanchion.stores.rules.query import PAGE, checked, cut, matches, met, queues_of


class Queries:
    """Looks at jobs, and changes nothing."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""
        return {row.id: row for row in map(self._jobs.find, ids) if row is not None}

    def find(self, query: Find) -> list[JobRow]:
        """Search live jobs and history, newest id first."""
        now = self._jobs.now()
        queues = self._jobs.queues.values() if query.queue is None else [self._jobs.known(query.queue)]
        rows = (row for queue in queues for part in (queue.live, queue.history) for row in part.values())
        return nlargest(query.limit, (row for row in rows if matches(row, query, now)), key=lambda row: row.id)

    def scan(self, scan: Scan) -> Iterator[list[JobRow]]:
        """Give all jobs that meet the conditions, page by page, as they are now."""
        rows = self._scanned(scan)
        return (rows[first : first + PAGE] for first in range(0, len(rows), PAGE))

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        """Cut a scan into up to `parts` scans of about as many jobs each."""
        ids = [row.id for row in self._scanned(scan)]
        return cut(scan, (ids[n * len(ids) // parts] for n in range(parts))) if ids else [scan]

    def _scanned(self, scan: Scan) -> list[JobRow]:
        now = self._jobs.now()
        queues = [self._jobs.known(name) for name in queues_of(checked(scan), self._jobs.queues)]
        rows = (row for queue in queues for row in (queue.live if scan.of == "jobs" else queue.history).values())
        return sorted((row for row in rows if met(row, scan, now)), key=lambda row: row.id)

    def ids_in_hand(self, queue: str, token: str) -> list[str]:
        """Return the ids of the jobs reserved under a token, in their order."""
        return [row.id for row in self._jobs.reserved(queue, token)]

    def in_hand(self, queue: str, token: str, first: str | None, last: str | None) -> list[JobRow]:
        """Return the jobs reserved under a token, with ids from `first` to `last`, by their ids."""
        return [
            row
            for row in self._jobs.reserved(queue, token)
            if (first is None or first <= row.id) and (last is None or row.id <= last)
        ]

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        now = self._jobs.now()
        return {queue: self._stats_of(queue, fields, now) for queue in queues}

    def _stats_of(self, queue: str, fields: Collection[Stat], now: int) -> QueueStats:
        known = self._jobs.known(queue)
        live = known.live.values()
        states = Counter(stored_state_of(row, now).value for row in live) if "states" in fields else {}
        dues = (row.run_at for row in live if row.state == QUEUED) if "next_due" in fields else ()
        return QueueStats(
            states=Sizes(total=sum(states.values()), **states),
            totals=Counts(**known.counts) if "totals" in fields else Counts(),
            next_due=min(dues, default=None),
        )

    def lane_depths(self, queue: str, lanes: Sequence[int] | None, at_most: int) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        depths = Counter(row.lane for row in self._jobs.known(queue).live.values() if row.state == QUEUED)
        return {lane: min(depth, at_most) for lane, depth in depths.items() if lanes is None or lane in lanes}
