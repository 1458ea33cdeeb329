"""Items of a micro-batch in Spark's tasks, which read them by parts, and settle many in one step.

As items are settled individually, a repeated batch finds only the remaining ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from stanchion.pipelines.route import LINEAGE
from stanchion.pipelines.station import Station
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow
from stanchion.streams.state import reserved_rows, settle
from stanchion.telemetry.traces import Headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TAKEN = "taken bigint, settled bigint"
_TAKEN = pa.schema([("taken", pa.int64()), ("settled", pa.int64())])

PARTS_MAX = 16
"""Maximum number of id ranges in the header of a new item; more are merged into one."""


@dataclass(frozen=True, slots=True)
class ReservedItems:
    """The reserved items of a batch, for its tasks. `parts`: the first and last id of each part.

    `trace`: the headers of new items, of the span of the batch. An item that moves on keeps its own. `chunks`: some of
    the jobs carry many items.
    """

    station: Station
    token: str
    parts: Sequence[tuple[str, str]]
    trace: Headers = field(default_factory=dict)
    chunks: bool = False

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

    def lineage(self, write: str) -> str:
        """Return the headers of new items, which are made of many: the write, and the ids of the batch."""
        parts = self.parts if len(self.parts) <= PARTS_MAX else [(self.parts[0][0], self.parts[-1][1])]
        made_from = {"station": self.station.queue, "write": write, "items": [list(part) for part in parts]}
        return json.dumps({LINEAGE: made_from, **self.trace}, separators=(",", ":"))

    def rows(self, ids: Sequence[str]) -> list[JobRow]:
        """Return these items, if still reserved."""
        found = self.station.context.store.fetch(ids)
        return [found[one] for one in ids if one in found and found[one].token == self.token]

    def settle(self, ended: Iterable[outcomes.Outcome], rows: Sequence[JobRow]) -> int:
        """Settle outcomes of items, with lanes for the ones that move on; return the number applied.

        The other items are no longer reserved: they were settled before, or taken back and will be delivered again.
        """
        context = self.station.context
        placed = context.lanes.place(context.store, list(ended), lambda: {row.id: row.tenant for row in rows})
        return settle(context.current_store(), list(placed))


def taken(rows: int, settled: int) -> pa.RecordBatch:
    """Return the counts of a task's rows."""
    return pa.RecordBatch.from_arrays([pa.array([rows]), pa.array([settled])], schema=_TAKEN)
