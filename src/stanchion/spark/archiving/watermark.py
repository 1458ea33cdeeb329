"""The archive's high-water mark per store, so that a run that keeps history reads only newer finishes.

The time is the version of an application transaction of the table. A run that came to its end writes it. A finish
becomes visible with its transaction, later than its time says: so the next run begins somewhat earlier, and knows what
is archived by its id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from stanchion.app import Stanchion
from stanchion.spark.archiving.table import ArchiveTable
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.registry import shown_url

OVERLAP = 3600 * SECOND
"""Microseconds before the watermark that are read again, plus `older_than`: no transaction takes longer."""

_NAME = "stanchion.archive.until"


class Watermark:
    """The watermark of a store in an archive, for these queues, or for all of them.

    Stores are identified by their address. One inside a process has none.
    """

    def __init__(self, app: Stanchion, queues: Sequence[str]) -> None:
        self._app, self._queues = app, tuple(queues)
        self._place = hashlib.sha256(shown_url(app.url).encode()).hexdigest()[:16]

    def newer(self, query: Query, table: ArchiveTable | None) -> Query:
        """Return the query for finishes that may be new since the last run; the whole query without a mark."""
        names = self._queues or tuple(settings.name for settings in self._app.store.queues())
        until = self._until(table) if table and self._app.store.capabilities.processes else None
        if until is None or not names:
            return query
        newer = query.also(Condition("finished_at", ">", until - OVERLAP))
        if not self._queues:
            newer = newer.also(Condition("queue", "in", names))
        return replace(newer, order="finished")

    def move(self, query: Query, table: ArchiveTable) -> None:
        """Record that the archive has all of a query."""
        if not self._app.store.capabilities.processes:
            return
        (until,) = [value for field, op, value in query.where if (field, op) == ("finished_at", "<=")]
        for queue in self._queues or ("*",):
            table.mark(self._name(queue), until)

    def _until(self, table: ArchiveTable) -> int | None:
        """Return the time up to which all these queues are archived."""
        of_all = table.marked(self._name("*")) or 0
        reached = [table.marked(self._name(queue)) or 0 for queue in self._queues] or [0]
        return max(of_all, min(reached)) or None

    def _name(self, queue: str) -> str:
        return f"{_NAME}:{self._place}:{queue}"
