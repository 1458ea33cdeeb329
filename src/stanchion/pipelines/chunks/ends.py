"""The ends of the items of a chunk in one attempt at a station."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from stanchion.core.chunks.chunk import Chunk
from stanchion.stores.records.outcomes import Abandon, Bury, Rollback

if TYPE_CHECKING:
    import pyarrow as pa

    from stanchion.core.chunks.content import Indices

Takes = Literal["arrow", "pandas", "polars"]
"""The tables that a batch function takes."""

END: Final = "(end)"
"""Stands for the results of an end station."""


class Way(NamedTuple):
    """Where items go: a station, after so many seconds, with this priority (None: unchanged)."""

    to: str
    delay: float = 0.0
    priority: int | None = None


class Failed(NamedTuple):
    """An item that is not done: its place in the chunk, and the outcome that it would have alone."""

    place: int
    outcome: Rollback | Bury | Abandon


class Values:
    """Values of items, by their indices in the chunk."""

    __slots__ = ("indices", "values")

    def __init__(self, indices: Iterable[int] = (), values: Iterable[object] = ()) -> None:
        self.indices: list[int] = [*indices]
        self.values: list[object] = [*values]

    def add(self, index: int, value: object) -> None:
        """Add the value of an item."""
        self.indices.append(index)
        self.values.append(value)


class ForTable(NamedTuple):
    """Rows that a batch function has returned for a table.

    `places`: of the items that they were made of: one for each row if they are `named`, else those of all rows.
    """

    to: str
    items: Chunk
    places: Sequence[int]
    named: bool


class Ends:
    """The ends of items.

    `values`: what goes on by which way, one value for an item. `several`: the same of items that became several, which
    are new items. `tables`: what a batch function passes on. `results`: values of an end station. `left`: the index of
    the first item that was not begun.
    """

    def __init__(self) -> None:
        self.values: dict[Way, Values] = defaultdict(Values)
        self.several: dict[Way, list[object]] = defaultdict(list)
        self.tables: dict[Way, list[Chunk]] = defaultdict(list)
        self.results = Values()
        self.for_tables: list[ForTable] = []
        self.result_tables: list[Chunk] = []
        self.result_places: list[pa.Array] = []
        """The places of the items that have results, for each of the tables."""
        self.dropped = 0
        self.forked = 0
        """Items that became several."""
        self.failed: list[Failed] = []
        self.left: int | None = None

    def finished_places(self) -> Indices:
        """Return the places of the items that have results."""
        if not self.result_places:
            return self.results.indices
        from stanchion.core.chunks.arrow import pa

        return pa.concat_arrays(self.result_places)
