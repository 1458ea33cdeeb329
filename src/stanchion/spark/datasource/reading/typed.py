"""Typed payload columns: the options, and the handling of jobs that do not fit the schema.

The columns are fixed when a query starts. Nullable fields that the queue gets later flow on: jobs that have them are
read by the newer schema, and the query gives the columns that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.core.spark_errors import JobsMisfit
from stanchion.core.values.codec import is_sealed
from stanchion.errors import InvalidInput
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.evolution import covers
from stanchion.schemas.kinds import Array, Decimals, Field, Kind, Map, Plain, Schema, Struct
from stanchion.schemas.misfits import Checker, Misfit
from stanchion.schemas.typed_columns import arrow_type, structs_of_columns
from stanchion.spark.datasource.options import place_of
from stanchion.spark.datasource.reading.schema import ITEM
from stanchion.spark.datasource.reading.typed_arrow import parsed, structs

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

Policy = Literal["stop", "null", "bury"]

PAYLOAD = "payload"
NEEDED = ("id", "task", PAYLOAD)
"""The columns that typed payloads are made from."""


def with_needed(names: Sequence[str]) -> list[str]:
    """Return the columns to read for these, where payloads are typed."""
    return [*names, *(name for name in NEEDED if name not in names)]


def schema_in_force(options: Mapping[str, Any]) -> Schema:
    """Return the schema in checked options, or their queue's. Raises InvalidInput if it has none."""
    queue = options["queue"]
    if queue is None:
        raise InvalidInput("the option typed needs the option queue: name the queue whose schema the payloads have")
    if options["payloadSchema"] is not None:
        return Schema(struct_of(options["payloadSchema"]))
    with place_of(options).app() as app:
        found = context_of(app).schemas.in_force(app.store, queue, fresh=True)
    if found is None:
        raise InvalidInput(
            f"queue {queue!r} has no schema, which typed payloads need: declare one with "
            f"app.queue({queue!r}, schema=...), or leave out the option typed"
        )
    return found.schema


def ddl_of(kind: Kind) -> str:
    """Return the type of a column for Spark: all that a source reads may be null there."""
    return str(_nullable(kind))


def _nullable(kind: Kind) -> Kind:
    match kind:
        case Struct(fields):
            return Struct(tuple(Field(field.name, _nullable(field.kind)) for field in fields))
        case Array(of):
            return Array(_nullable(of))
        case Map(of):
            return Map(_nullable(of))
    return kind


def kind_of(given: DataType) -> Kind:
    """Return the type that stands for one of Spark. Raises InvalidInput if none does."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(given, StructType):
        return Struct(tuple(Field(field.name, kind_of(field.dataType)) for field in given.fields))
    if isinstance(given, ArrayType):
        return Array(kind_of(given.elementType))
    if isinstance(given, MapType):
        return Map(kind_of(given.valueType))
    if isinstance(given, DecimalType):
        return Decimals(given.precision, given.scale)
    return Plain(given.simpleString())


def wanted_fields(schema: Schema, given: DataType) -> tuple[str, ...]:
    """Return the fields of a requested payload column. Raises InvalidInput for fields unknown to the schema."""
    wanted = kind_of(given)
    known = {field.name: _nullable(field.kind) for field in schema.fields}
    if not isinstance(wanted, Struct):
        raise InvalidInput(f"with the option typed, the column payload is {ddl_of(schema.struct)}, not {wanted}")
    for field in wanted.fields:
        if field.name not in known:
            raise InvalidInput(f"the payloads have no field {field.name!r}; known: {', '.join(known)}")
        if _nullable(field.kind) != known[field.name]:
            raise InvalidInput(
                f"the field {field.name} of the payloads is of type {known[field.name]}, not {field.kind}; cast it "
                f"after reading"
            )
    return tuple(field.name for field in wanted.fields)


@dataclass(frozen=True)
class Misfits:
    """The payloads of a batch that do not fit, by the ids of their jobs, with the place of an item of many: `id/7`."""

    queue: str
    version: int
    of: int
    jobs: Mapping[str, Misfit]

    def are_too_many(self, percent: float) -> bool:
        """Return whether they are more than such a share of the batch: then the schema is at fault, not a job."""
        return len(self.jobs) >= MISFITS_MIN and 100 * len(self.jobs) > percent * self.of

    @property
    def errors(self) -> dict[str, str]:
        """The errors of the buried jobs."""
        return {job: f"PayloadMisfit: {why}" for job, why in self.jobs.items()}

    def stopped(self) -> JobsMisfit:
        """Return the error that names them."""
        job, misfit = next(iter(self.jobs.items()))
        return JobsMisfit(self.queue, self.version, len(self.jobs), self.of, job, str(misfit))


MISFITS_MIN = 10
"""Number of misfits from which the brake of a stream may stop it: a small batch with one misfit continues."""


class TypedPayloads:
    """Turns the payloads of a queue into structs with the fields that a query has. Pickled into its tasks."""

    def __init__(self, queue: str, schema: Schema, fields: Sequence[str], policy: Policy) -> None:
        self.queue, self.schema, self.fields, self.policy = queue, schema, tuple(fields), policy
        self._use(schema)

    def _use(self, schema: Schema) -> None:
        self._current, self._checker = schema, Checker(schema.struct)

    def __reduce__(self) -> tuple[object, ...]:
        return TypedPayloads, (self.queue, self.schema, self.fields, self.policy)

    @property
    def kind(self) -> pa.DataType:
        """The type of the column."""
        kinds = {field.name: field.kind for field in self.schema.fields}
        return arrow_type(Struct(tuple(Field(name, kinds[name]) for name in self.fields)))

    def applied(self, app: Stanchion, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return a batch with these columns, its payloads typed, null for calls. Raises JobsMisfit."""
        column, misfits = self._column(app, batch)
        if misfits.jobs and self.policy != "null":
            raise misfits.stopped()
        narrow = self._narrow(column)
        columns = [narrow if name == PAYLOAD else batch.column(name) for name in names]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _narrow(self, column: pa.StructArray) -> pa.StructArray:
        """Return payloads with the fields of the query alone."""
        whole = column.flatten()
        places = {field.name: n for n, field in enumerate(self._current.fields)}
        kept = [whole[places[name]] for name in self.fields]
        return pa.StructArray.from_arrays(kept, fields=list(self.kind), mask=column.is_null())

    def of_columns(self, app: Stanchion, items: pa.Table) -> pa.StructArray | None:
        """Return the items of a chunk as payloads, if all fit by their columns; otherwise None."""
        found = structs_of_columns(self._current.struct, items)
        if found is None and self._has_grown(app):
            found = structs_of_columns(self._current.struct, items)
        return None if found is None else self._narrow(found)

    def or_null(self, batch: pa.RecordBatch) -> pa.StructArray:
        """Return the payloads of a batch as structs, null where they do not fit, are calls, or are encrypted."""
        if not batch.column("task").is_valid().true_count:
            found = parsed(self._current.struct, batch.column(PAYLOAD))
            if found is not None:
                return found
        return structs(self._current.struct, self._checked(batch)[0])

    def looked_at(self, app: Stanchion, batch: pa.RecordBatch, name: str) -> tuple[pa.Array, Misfits]:
        """Return the values of a field of payloads, null where they do not fit, and the jobs that do not fit."""
        column, misfits = self._column(app, batch)
        return column.flatten()[[field.name for field in self._current.fields].index(name)], misfits

    def misfits(self, app: Stanchion, batch: pa.RecordBatch) -> Misfits:
        """Return the jobs of a batch that do not fit."""
        return self._column(app, batch)[1]

    def _column(self, app: Stanchion, batch: pa.RecordBatch) -> tuple[pa.StructArray, Misfits]:
        texts = batch.column(PAYLOAD)
        calls = batch.column("task").is_valid()
        if not calls.true_count:
            if (found := parsed(self._current.struct, texts)) is not None:
                return found, self._found(batch, {})
            if self._has_grown(app) and (found := parsed(self._current.struct, texts)) is not None:
                return found, self._found(batch, {})
        values, misfits = self._checked(batch)
        if misfits and self._has_grown(app, fresh=True):
            values, misfits = self._checked(batch)
        return structs(self._current.struct, values), self._found(batch, misfits)

    def _found(self, batch: pa.RecordBatch, jobs: Mapping[str, Misfit]) -> Misfits:
        return Misfits(self.queue, self._current.version, batch.num_rows, jobs)

    def _checked(self, batch: pa.RecordBatch) -> tuple[list[object], dict[str, Misfit]]:
        """Return decoded payloads, and None for calls and misfits."""
        values: list[object] = []
        misfits: dict[str, Misfit] = {}
        names = _names(batch)
        for job, task, text in zip(names, *(batch.column(name).to_pylist() for name in NEEDED[1:]), strict=True):
            value = None
            if task is None:
                value = _SEALED if is_sealed(text) else self._checker.decoded(text)
                misfit = value if isinstance(value, Misfit) else self._checker.value(value)
                if misfit is not None:
                    misfits[job], value = misfit, None
            values.append(value)
        return values, misfits

    def _has_grown(self, app: Stanchion, *, fresh: bool = False) -> bool:
        """Use the schema that is in force now, if it has all that this query reads; return whether it is another."""
        found = context_of(app).schemas.in_force(app.store, self.queue, fresh=fresh)
        if found is None or found.schema.struct == self._current.struct:
            return False
        if not covers(found.schema.struct, self.schema.struct):
            return False
        self._use(found.schema)
        return True


def _names(batch: pa.RecordBatch) -> list[str]:
    """Return what to call payloads: by the ids of their jobs, and their places in chunks."""
    ids: list[str] = batch.column("id").to_pylist()
    if ITEM not in batch.schema.names:
        return ids
    places = batch.column(ITEM).to_pylist()
    return [job if place is None else f"{job}/{place}" for job, place in zip(ids, places, strict=True)]


_SEALED = Misfit("", "is encrypted, and the query has no key for it: give the option keys")
