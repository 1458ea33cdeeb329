"""Typed columns of an archive: payloads of each queue with a schema, as a struct column in addition to their text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.schemas.typed_columns import arrow_type
from stanchion.spark.datasource.reading.typed import TypedPayloads

PREFIX = "payload_"


class TypedColumns:
    """The columns for the queues with a schema. Pickled into Spark's tasks.

    Raises InvalidInput for two queues whose columns Spark can't distinguish: their names differ only in case, or in
    dots and underscores.
    """

    def __init__(self, payloads: Sequence[TypedPayloads] = ()) -> None:
        self._payloads = list(payloads)
        names: dict[str, str] = {}
        for one in self._payloads:
            other = names.setdefault(column_of(one.queue).lower(), one.queue)
            if other != one.queue:
                raise InvalidInput(
                    f"the typed columns of the queues {other!r} and {one.queue!r} would have one name, without case "
                    f"and dots: rename one, or archive them into two folders"
                )

    @classmethod
    def of(cls, app: Stanchion, queues: Sequence[str] = ()) -> TypedColumns:
        """Return the columns for these queues, or all, by the schemas in force."""
        names = sorted(queues or {settings.name for settings in app.store.queues()})
        found = {name: context_of(app).schemas.in_force(app.store, name, fresh=True) for name in names}
        schemas = {name: one.schema for name, one in found.items() if one is not None}
        return cls(
            [TypedPayloads(name, one, [field.name for field in one.fields], "null") for name, one in schemas.items()]
        )

    @property
    def fields(self) -> list[pa.Field]:
        """The columns."""
        return [pa.field(column_of(one.queue), arrow_type(one.schema.struct)) for one in self._payloads]

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of finished jobs with these columns."""
        columns = [self._column(one, field.type, batch) for one, field in zip(self._payloads, self.fields, strict=True)]
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=pa.schema([*batch.schema, *self.fields]))

    def _column(self, payloads: TypedPayloads, kind: pa.DataType, batch: pa.RecordBatch) -> pa.Array:
        mine = pc.equal(batch.column("queue"), payloads.queue)
        if not mine.true_count:
            return pa.nulls(batch.num_rows, kind)
        structs = payloads.or_null(batch.filter(mine))
        places = pc.subtract(pc.cumulative_sum(mine.cast(pa.int64())), 1)
        return structs.take(pc.if_else(mine, places, pa.scalar(None, pa.int64())))


def column_of(queue: str) -> str:
    """Return the name of a queue's column, without dots: Spark and others read a dot as the way to a nested field."""
    return f"{PREFIX}{queue.replace('.', '_')}"
