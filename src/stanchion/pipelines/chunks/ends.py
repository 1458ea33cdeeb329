"""The ends of the items of a chunk in one attempt at a station."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Literal, NamedTuple

from stanchion.core.chunks.chunk import Chunk
from stanchion.stores.records.outcomes import Abandon, Bury, Rollback

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

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.values: list[object] = []

    def add(self, index: int, value: object) -> None:
        """Add the value of an item."""
        self.indices.append(index)
        self.values.append(value)


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
        self.result_tables: list[Chunk] = []
        self.result_places: list[int] = []
        """The places of the items that have results in tables."""
        self.dropped = 0
        self.forked = 0
        """Items that became several."""
        self.failed: list[Failed] = []
        self.left: int | None = None
