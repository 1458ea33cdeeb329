"""Items of a micro-batch in Spark's tasks, which read them by parts and settle each in one step.

As items are settled individually, a repeated batch finds only those that are left. Plain stations need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from stanchion.pipelines.station import Station
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Outcome
from stanchion.streams.state import reserved_rows, settle
from stanchion.telemetry.traces import Headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TAKEN = "taken bigint, settled bigint"
_TAKEN = pa.schema([("taken", pa.int64()), ("settled", pa.int64())])

AT_ONCE = 200
"""Outcomes per call of settle."""


@dataclass(frozen=True, slots=True)
class ReservedItems:
    """The reserved items of a batch, for its tasks. `parts`: the first and last id of each part.

    `trace`: the headers of new items, of the span of the batch. An item that goes on keeps its own.
    """

    station: Station
    token: str
    parts: Sequence[tuple[str, str]]
    trace: Headers = field(default_factory=dict)

    def frame(
        self, like: DataFrame, work: Callable[[list[JobRow]], Iterator[pa.RecordBatch]], schema: str
    ) -> DataFrame:
        """Return the rows that `work` returns for the items, one part per task. `like`: any frame of the session."""
        items, parts = self, len(self.parts)

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for some in numbers:
                for number in some.column("id").to_pylist():
                    yield from work(items.part(number))
            items.station.context.close()

        return like.sparkSession.range(0, parts, 1, max(1, parts)).mapInArrow(read, schema)

    def part(self, number: int) -> list[JobRow]:
        """Return the items of a part that are still reserved."""
        return reserved_rows(self.station.context.store, self.station.queue, self.token, *self.parts[number])

    def rows(self, ids: Sequence[str]) -> list[JobRow]:
        """Return these items, if still reserved."""
        found = self.station.context.store.fetch(ids)
        return [found[one] for one in ids if one in found and found[one].token == self.token]

    def settle(self, outcomes: Iterable[Outcome], rows: Sequence[JobRow]) -> int:
        """Settle outcomes of items, with lanes for those that go on; return the number applied.

        The other items are no longer reserved: they were settled before, or were taken back and come again.
        """
        context = self.station.context
        placed = context.lanes.place(context.store, list(outcomes), lambda: {row.id: row.tenant for row in rows})
        return settle(context.current_store(), list(placed))


def work_on_items(items: ReservedItems, like: DataFrame) -> None:
    """Run items through a plain station."""

    def work(rows: list[JobRow]) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(rows), AT_ONCE):
            portion = rows[at : at + AT_ONCE]
            outcomes = [outcome for row in portion if (outcome := items.station.step(row)) is not None]
            yield taken(len(portion), items.settle(outcomes, portion))

    items.frame(like, work, TAKEN).collect()


def taken(rows: int, settled: int) -> pa.RecordBatch:
    """Return the counts of a task's rows."""
    return pa.RecordBatch.from_arrays([pa.array([rows]), pa.array([settled])], schema=_TAKEN)
