"""The items of a batch as rows: a job that carries a chunk is a row for each of its items.

id        of the item: of its job, or `<job>/<place>` in a chunk
payload   its JSON; null where it is typed
unmet     it does not meet an expectation
typed     its fields, of a chunk whose columns are of the types of the station's schema
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.core.chunks.arrow import counting
from stanchion.core.chunks.stored import opened
from stanchion.core.values.framing import as_text
from stanchion.errors import InvalidInput
from stanchion.pipelines.station import Station
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.kinds import Plain, Struct
from stanchion.schemas.typed_columns import arrow_type
from stanchion.spark.datasource.reading.typed import ddl_of
from stanchion.stores.records.jobs import JobRow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ID: Final = "job_id"
"""The column with the id of an item."""

_MISFIT: Final = "_misfit"
_EXACT: Final = {
    "boolean": pa.types.is_boolean,
    "tinyint": pa.types.is_integer,
    "smallint": pa.types.is_integer,
    "int": pa.types.is_integer,
    "bigint": pa.types.is_integer,
    "double": lambda kind: pa.types.is_integer(kind) or pa.types.is_float64(kind),
    "string": pa.types.is_string,
}
"""Types of a schema, and which columns of a chunk Spark would read from JSON as the same values."""


@dataclass(frozen=True, slots=True)
class ItemReader:
    """Makes rows of a station's items. Pickled into tasks. `typed`: the fields that columns may give, if any may."""

    station: Station
    typed: Struct | None

    @classmethod
    def of(cls, station: Station, schema: str) -> ItemReader:
        """Return the reader for a schema in Spark's DDL."""
        try:
            struct = struct_of(schema)
        except InvalidInput:  # Spark knows more types
            return cls(station, None)
        names = {field.name.lower() for field in struct.fields if "`" not in field.name}
        plain = all(isinstance(field.kind, Plain) and field.kind.name in _EXACT for field in struct.fields)
        return cls(station, struct if plain and len(names) == len(struct.fields) else None)

    @property
    def ddl(self) -> str:
        """The columns."""
        return ", ".join(("id string", "payload string", "unmet boolean", *self._typed_ddl))

    @property
    def _typed_ddl(self) -> list[str]:
        return [] if self.typed is None else [f"typed {ddl_of(self.typed)}"]

    def rows(self, jobs: Sequence[JobRow]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of jobs."""
        codec = self.station.context.codec
        single = [job for job in jobs if not isinstance(job.payload, bytes)]
        if single:
            ids = pa.array([job.id for job in single], pa.string())
            payloads = pa.array([codec.opened(as_text(job.payload)) for job in single], pa.string())
            yield self._batch(ids, payloads, [codec.decode(job.payload) for job in single] if self._expects else [])
        for job in jobs:
            if isinstance(job.payload, bytes):
                items = opened(codec, job.payload)
                ids = pc.binary_join_element_wise(job.id, counting(0, len(items)).cast(pa.string()), "/")
                columns = items.columns()
                typed = None if columns is None else self._typed(columns)
                payloads = items.texts() if typed is None else pa.nulls(len(items), pa.string())
                yield self._batch(ids, payloads, items.values if self._expects else [], typed)

    @property
    def _expects(self) -> bool:
        return self.station.expectations is not None

    def _batch(
        self, ids: pa.Array, payloads: pa.Array, items: Sequence[object], typed: pa.StructArray | None = None
    ) -> pa.RecordBatch:
        expected = self.station.expectations
        unmet = (
            pa.repeat(False, len(ids)) if expected is None else pa.array([bool(expected.unmet(one)) for one in items])
        )
        columns = {"id": ids, "payload": payloads, "unmet": unmet}
        if self.typed is not None:
            columns["typed"] = pa.nulls(len(ids), arrow_type(self.typed)) if typed is None else typed
        return pa.RecordBatch.from_pydict(columns)

    def _typed(self, columns: pa.Table) -> pa.StructArray | None:
        """Return the columns of a chunk as the station's fields; None unless Spark would read the same from JSON."""
        if self.typed is None:
            return None
        found = []
        for field in self.typed.fields:
            assert isinstance(field.kind, Plain)  # noqa: S101 - see `of`
            column = columns.column(field.name).combine_chunks() if field.name in columns.schema.names else None
            wanted = arrow_type(field.kind)
            if column is None or pa.types.is_null(column.type):
                found.append(pa.nulls(columns.num_rows, wanted))
            elif not _EXACT[field.kind.name](column.type):
                return None
            else:
                try:
                    found.append(column.cast(wanted))
                except pa.ArrowInvalid:  # a number is too large
                    return None
        return pa.StructArray.from_arrays(found, names=[field.name for field in self.typed.fields])

    def fields_of(self, rows: DataFrame) -> Column | None:
        """Return rows of another station as this one's fields; None unless they would come back the same from JSON."""
        from pyspark.sql import functions as f

        if self.typed is None or self._expects:
            return None
        kinds = dict(rows.dtypes)
        names = [name.lower() for name in rows.columns]
        for field in self.typed.fields:
            if kinds.get(field.name, str(field.kind)) != str(field.kind) or names.count(field.name.lower()) > 1:
                return None
            if field.name not in kinds and field.name.lower() in names:
                return None
        nothing = f.lit(None)
        fields = [
            (f.col(f"`{field.name}`") if field.name in kinds else nothing).cast(str(field.kind)).alias(field.name)
            for field in self.typed.fields
        ]
        return f.struct(*fields)

    def judged(self, read: DataFrame) -> DataFrame:
        """Return items with the column `unmet`."""
        from pyspark.sql import functions as f

        expected, codec = self.station.expectations, self.station.context.codec
        if expected is None:
            return read.withColumn("unmet", f.lit(False))

        def judge(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for some in found:
                items = [codec.decode(text) for text in some.column("payload").to_pylist()]
                unmet = pa.array([bool(expected.unmet(item)) for item in items], pa.bool_())
                yield some.append_column("unmet", unmet)

        return read.mapInArrow(judge, ", ".join(("id string", "payload string", *self._typed_ddl, "unmet boolean")))

    def parsed(self, read: DataFrame, schema: str) -> tuple[DataFrame, DataFrame]:
        """Return the items as rows of the schema, with their ids, and the items that fail it or an expectation."""
        from pyspark.sql import functions as f

        item = f.from_json("payload", f"{schema}, {_MISFIT} string", {"columnNameOfCorruptRecord": _MISFIT})
        parsed = read.withColumn("item", item)
        fits = f.col("item").isNotNull() & f.col(f"item.{_MISFIT}").isNull()
        fields: list[Column | str] = ["item.*"]
        if self.typed is not None:
            fits = f.col("typed").isNotNull() | fits
            names = [field.name for field in self.typed.fields]
            fields = [f.coalesce(f.col(f"typed.`{name}`"), f.col(f"item.`{name}`")).alias(name) for name in names]
        fits = fits & ~f.col("unmet")
        items = parsed.where(fits).select(*fields, f.col("id").alias(ID)).drop(_MISFIT)
        return items, parsed.where(~fits).select("id", "payload")


def in_chunk(name: str) -> Column:
    """Return whether the ids in a column are of items of chunks."""
    from pyspark.sql import functions as f

    return f.instr(name, "/") > 0


def job_and_place(name: str) -> list[Column]:
    """Return the columns `job` and `place` for the ids of items of chunks."""
    from pyspark.sql import functions as f

    parts = f.split(name, "/")
    return [parts[0].alias("job"), parts[1].cast("int").alias("place")]
