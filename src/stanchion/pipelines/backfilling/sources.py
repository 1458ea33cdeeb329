"""Where the items of a backfill come from: history, or an archive.

A source yields each item that arrived at the station, with its position, in the order of positions. A position is a
text, and stays the same when the source is read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import NamedTuple, Protocol

from stanchion import wings
from stanchion.errors import MissingExtra
from stanchion.pipelines.finding import queries_by_queue
from stanchion.pipelines.topology import Topology
from stanchion.stores.paging import pages_by_size
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.query import PAGE

_FIRST_PAGE = 10
"""Jobs of the first page, before their size is known."""


class Found(NamedTuple):
    """An item and its position."""

    place: str
    row: JobRow


class Source(Protocol):
    """Where items come from."""

    def rows(self, after: str | None) -> Iterator[Found]:
        """Yield the items after a position, None: all."""

    def reached(self, place: str) -> int:
        """Return the time of a position, in microseconds, to show the progress."""


class HistoryItems:
    """The store's items that arrived at a queue, including live ones, which are counted."""

    def __init__(self, store: Store, topology: Topology, queue: str, since: int | None, until: int) -> None:
        self._store, self._topology, self._queue = store, topology, queue
        self._since, self._until = since, until

    def rows(self, after: str | None) -> Iterator[Found]:
        """Yield the items with higher ids, by id. An item that ends meanwhile may come once as live."""
        before = Condition("enqueued_at", "<", self._until)
        behind = () if after is None else (Condition("id", ">", after),)
        ended = () if self._since is None else (Condition("finished_at", ">=", self._since),)
        live = Query("live", (before, *behind), order="id", limit=_FIRST_PAGE)
        past = Query("history", (before, *behind, *ended), order="id", limit=_FIRST_PAGE)
        queries = (one for query in (live, past) for one in queries_by_queue(self._topology, self._queue, query))
        last = after
        for row in merge(*map(self._rows, queries), key=lambda row: row.id):
            if row.id != last:
                last = row.id
                yield Found(row.id, row)

    def _rows(self, query: Query) -> Iterator[JobRow]:
        for page in pages_by_size(self._store, query, PAGE):
            yield from page

    def reached(self, place: str) -> int:
        """Return the time of an id."""
        return (int(place[:8], 16) << 16 | int(place[9:13], 16)) * 1000


def archived(folder: str | Path, queue: str, since: int | None) -> Source:
    """Return an archive's items that arrived at a queue and finished since then."""
    try:
        module = wings.module("archives", "delta")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("stanchion"):
            raise
        raise MissingExtra("spark", "the archive") from None
    found: Source = module.ArchivedItems(Path(folder).absolute(), queue, since)
    return found
