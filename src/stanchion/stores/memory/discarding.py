"""Deleting finished jobs that are kept elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.memory.jobs import Rows


class Discarding(Rows):
    """Deletes finished jobs as they were seen."""

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        with self._lock:
            found = [row for job_id, end in set(ends) if (row := self._find(job_id)) and row.finished_at == end]
            for row in found:
                self._remove(row)
            return len(found)
