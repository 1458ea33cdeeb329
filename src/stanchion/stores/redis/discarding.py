"""Deleting finished jobs that are kept elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.redis.jobs import RedisBase, portions

_AT_ONCE = 1000


class Discarding(RedisBase):
    """Deletes finished jobs as they were seen."""

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        wanted = set(ends)
        found = self.look(sorted({job_id for job_id, _ in wanted}))[1].values() if wanted else ()
        by_queue: dict[str, list[str]] = {}
        for seen in found:
            if (seen.row.id, seen.row.finished_at) in wanted:
                by_queue.setdefault(seen.row.queue, []).extend((seen.row.id, seen.version, "", ""))
        return sum(
            sum(map(int, self.script("take", queue, *part)))
            for queue, texts in by_queue.items()
            for part in portions(texts, 4 * _AT_ONCE)
        )
