"""Reading all jobs of the memory store."""

from __future__ import annotations

from collections.abc import Iterator

from stanchion.stores.memory.jobs import Rows
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Scan
from stanchion.stores.rules.query import PAGE, checked, cut, met, queues_of


class Scanning(Rows):
    """Gives the jobs of a scan as they are at its first page."""

    def scan(self, scan: Scan) -> Iterator[list[JobRow]]:
        """Give all jobs that meet the conditions, page by page."""
        rows = self._scanned(checked(scan))
        yield from (rows[first : first + PAGE] for first in range(0, len(rows), PAGE))

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        """Cut a scan into up to `parts` scans of about as many jobs each."""
        ids = [row.id for row in self._scanned(checked(scan))]
        return cut(scan, (ids[n * len(ids) // parts] for n in range(parts))) if ids else [scan]

    def _scanned(self, scan: Scan) -> list[JobRow]:
        with self._lock:
            now = self.now()
            lines = [self._lines[queue] for queue in queues_of(scan, self._lines)]
            rows = (row for line in lines for row in (line.live if scan.of == "jobs" else line.history).values())
            return sorted((row for row in rows if met(row, scan, now)), key=lambda row: row.id)
