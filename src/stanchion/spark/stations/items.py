"""Items of a micro-batch in Spark's tasks: read there, by parts, and settled there, each in one step.

Each item is settled by itself, so whatever is repeated of a batch finds only those that are left. A plain station does
no more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from stanchion.pipelines.station import Station
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Outcome
from stanchion.streams.state import reserved_rows, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TAKEN = "taken bigint, settled bigint"
_TAKEN = pa.schema([("taken", pa.int64()), ("settled", pa.int64())])

AT_ONCE = 200
"""Items whose outcomes are settled together."""


@dataclass(frozen=True, slots=True)
class Hand:
    """The items of a batch that are in hand, as its tasks know them: by the ids that their parts begin and end with."""

    station: Station
    token: str
    parts: Sequence[tuple[str, str]]

    def frame(
        self, like: DataFrame, work: Callable[[list[JobRow]], Iterator[pa.RecordBatch]], schema: str
    ) -> DataFrame:
        """Return what `work` makes of the items, a part in each task; `like`: a frame of the session."""
        hand, parts = self, len(self.parts)

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for some in numbers:
                for number in some.column("id").to_pylist():
                    yield from work(hand.part(number))
            hand.station.context.close()

        return like.sparkSession.range(0, parts, 1, max(1, parts)).mapInArrow(read, schema)

    def part(self, number: int) -> list[JobRow]:
        """Return those of a part that are still in hand."""
        return reserved_rows(self.station.context.store, self.station.queue, self.token, *self.parts[number])

    def rows(self, ids: Sequence[str]) -> list[JobRow]:
        """Return those of these items that are still in hand."""
        found = self.station.context.store.fetch(ids)
        return [found[one] for one in ids if one in found and found[one].token == self.token]

    def settle(self, outcomes: Iterable[Outcome], rows: Sequence[JobRow]) -> int:
        """Settle outcomes of items, and give lanes to those that go on; return how many counted.

        The others are no longer in hand: they were settled before, or were taken back and come again.
        """
        store, lanes = self.station.context.store, self.station.context.lanes
        return settle(store, list(lanes.place(store, list(outcomes), lambda: {row.id: row.tenant for row in rows})))


def work_on_items(hand: Hand, like: DataFrame) -> None:
    """Bring items through a plain station."""

    def work(rows: list[JobRow]) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(rows), AT_ONCE):
            portion = rows[at : at + AT_ONCE]
            outcomes = [outcome for row in portion if (outcome := hand.station.step(row)) is not None]
            yield taken(len(portion), hand.settle(outcomes, portion))

    hand.frame(like, work, TAKEN).collect()


def taken(rows: int, settled: int) -> pa.RecordBatch:
    """Return what a task tells of its rows."""
    return pa.RecordBatch.from_arrays([pa.array([rows]), pa.array([settled])], schema=_TAKEN)
