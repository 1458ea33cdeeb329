"""Reading partitioned queues: queries merged in order, figures added up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from stanchion.core.names.partition_names import logical_name
from stanchion.partitions.layouts import Layouts
from stanchion.stores.ports import ArrowReads
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import MATCHED, Condition, Page, Query
from stanchion.stores.records.queues import Counts, Head, QueueStats, Sizes, Stat
from stanchion.stores.rules.query import merged, value_of


class Reading:
    """Reads by queue name: a partitioned queue is expanded to all its physical queues."""

    def __init__(self, store: Store, layouts: Layouts) -> None:
        self._store, self._layouts = store, layouts

    def names(self, queues: Collection[str]) -> list[str]:
        """Return the physical queues of these queues."""
        return [name for queue in queues for name in self._layouts.names(queue)]

    def select(self, query: Query) -> Page:
        """Return a page of a query, for one queue merged from a page of each physical queue, so reads are bounded.

        A query that names few jobs, for example by token, is one read.
        """
        queries = self._parts(query)
        if len(queries) == 1:
            page = self._store.select(queries[0])
            return page._replace(rows=_logical(query.columns, page.rows)) if query.columns else page
        page = merged(query, [(self._store.select, part) for part in queries])
        return page._replace(rows=_logical(query.columns, page.rows)) if query.columns else page

    def _parts(self, query: Query) -> list[Query]:
        """Return queries whose merged jobs are the jobs of a query."""
        queue, passed = value_of(query, "queue"), value_of(query, "passed")
        if passed is not None and passed == queue:
            query = replace(query, where=tuple(one for one in query.where if one.field != "passed"))
        elif passed in self._layouts.known and not any(one.field == "queue" for one in query.where):
            others = tuple(one for one in query.where if one.field != "passed")
            there = (Condition("queue", "=", name) for name in self.names([passed])[1:])
            return [query, *(replace(query, where=(*others, one)) for one in there)]
        if queue not in self._layouts.known or any(one.field in MATCHED for one in query.where):
            return [self.expanded(query)]
        others = tuple(one for one in query.where if one.field != "queue")
        return [replace(query, where=(*others, Condition("queue", "=", name))) for name in self.names([queue])]

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Split a query, which then names physical queues."""
        return self._store.partition(self.expanded(query), parts)

    def select_arrow(self, query: Query) -> Iterator[object]:
        """Yield the record batches of a query, with the names of the queues themselves."""
        arrow = self._store.extension(ArrowReads)
        assert arrow is not None  # noqa: S101 - see PartitionedStore.extension
        for batch in arrow.select_arrow(self.expanded(query)):
            yield _logical_batch(batch, [name for name in query.columns if name in _NAMES])

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of queues: sums over their physical queues, and when the first job of any is due."""
        parts = {queue: self._layouts.names(queue) for queue in queues}
        found = self._store.stats([name for names in parts.values() for name in names], fields)
        return {
            queue: _sum([found[name] for name in names]) if len(names) > 1 else found[queue]
            for queue, names in parts.items()
        }

    def lane_depths(self, queue: str, lanes: Sequence[int] | None, at_most: int) -> dict[int, int]:
        """Count the queued jobs of each lane, over all physical queues."""
        total: dict[int, int] = {}
        for name in self.names([queue]):
            for lane, depth in self._store.lane_depths(name, lanes, at_most).items():
                total[lane] = min(at_most, total.get(lane, 0) + depth)
        return total

    def expanded(self, query: Query) -> Query:
        """Return a query with its queues expanded to physical queues."""
        return replace(query, where=tuple(map(self._expanded, query.where)))

    def _expanded(self, one: Condition) -> Condition:
        if one.field not in _NAMES or one.op not in ("=", "in"):
            return one
        queues = (one.value,) if one.op == "=" else one.value
        names = tuple(dict.fromkeys(self.names(queues)))
        return one if names == tuple(queues) else Condition(one.field, "in", names)


_NAMES: Final = ("queue", "dead_from")
"""The fields with names of queues."""


def _logical(columns: Sequence[str], rows: Sequence[Any]) -> list[object]:
    places = [place for place, name in enumerate(columns) if name in _NAMES]
    if not places:
        return list(rows)
    return [
        tuple(logical_name(value) if place in places and value else value for place, value in enumerate(row))
        for row in rows
    ]


def _logical_batch(batch: Any, columns: Sequence[str]) -> object:
    import pyarrow as pa

    for column in columns:
        at = batch.schema.get_field_index(column)
        names = batch.column(at)
        shown = pa.array([None if name is None else logical_name(name) for name in names.to_pylist()], names.type)
        batch = batch.set_column(at, batch.schema.field(at), shown)
    return batch


def _sum(parts: Sequence[QueueStats]) -> QueueStats:
    heads: dict[tuple[int, int], Head] = {}
    for head in sorted((head for one in parts for head in one.heads), key=lambda head: head.run_at):
        heads.setdefault((head.lane, head.rank), head)
    dues = [one.next_due for one in parts if one.next_due is not None]
    return QueueStats(
        reduce(Sizes.plus, (one.states for one in parts)),
        Counts(*map(sum, zip(*(one.totals for one in parts), strict=True))),
        min(dues, default=None),
        tuple(heads.values()),
        reduce(Sizes.plus, (one.items for one in parts)),
        sum(one.chunks for one in parts),
    )
