"""Deleting finished jobs that are kept elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.mongo.counting import Counting


class Discarding(Counting):
    """Deletes finished jobs as they were seen."""

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        wanted = sorted(set(ends))
        as_seen = {"$or": [{"_id": job_id, "finished_at": end} for job_id, end in wanted]}
        return self.forget([job_id for job_id, _ in wanted], as_seen) if wanted else 0
