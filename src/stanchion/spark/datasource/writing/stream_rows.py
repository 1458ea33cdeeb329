"""The columns of rows written to a stream."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.errors import InvalidInput
from stanchion.spark.datasource.json_values import jsonable
from stanchion.spark.datasource.writing.new_jobs import check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Mode = Literal["append", "move", "finish"]

ID = "job_id"
ERROR = "error"
RETRY_DELAY = 30.0
"""Seconds after which a job with an error is retried, unless its row has a delay."""

_OF_MODE = {"move": ("queue", "payload", "headers", "delay", "tenant"), "finish": ("result", "delay")}


@dataclass(frozen=True)
class SinkColumns:
    """The columns of a sink, and their roles."""

    mode: Mode
    names: tuple[str, ...]

    @property
    def has_content(self) -> bool:
        """True if rows have a payload or a result."""
        return ("result" if self.mode == "finish" else "payload") in self.names

    @property
    def has_ids(self) -> bool:
        """True if rows have the id of the job they come from."""
        return ID in self.names

    def without(self, rows: pa.RecordBatch, ids: Collection[str]) -> pa.RecordBatch:
        """Return the rows of all jobs except these."""
        return rows.filter(pc.invert(pc.is_in(rows.column(ID), pa.array(list(ids), pa.string()))))

    def divided(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the rows with an error, and those without."""
        if ERROR not in self.names:
            return rows.slice(0, 0), rows
        failed = pc.is_valid(rows.column(ERROR))
        return rows.filter(failed), rows.filter(pc.invert(failed))

    def ids(self, rows: pa.RecordBatch, seen: set[str]) -> list[str]:
        """Return the ids of jobs. Raises InvalidInput for a missing or duplicate id."""
        ids: list[str] = rows.column(ID).to_pylist()
        if None in ids:
            raise InvalidInput(f"the column {ID} is null in a row; it is the id of a job that was read")
        before = len(seen)
        seen.update(ids)
        if len(seen) < before + len(ids):
            raise InvalidInput(
                f"two rows have the same {ID}, but a job has one outcome; write new jobs with mode=append instead"
            )
        return ids

    def delays(self, rows: pa.RecordBatch) -> list[float]:
        """Return the seconds after which jobs with an error are retried."""
        if "delay" not in self.names:
            return [RETRY_DELAY] * rows.num_rows
        return [RETRY_DELAY if one is None else float(one) for one in rows.column("delay").to_pylist()]

    def content(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns of new jobs."""
        if self.mode == "append":
            return rows.select([name for name in rows.schema.names if name not in (ID, ERROR)])
        found = {name: rows.column(name) for name in rows.schema.names if name in _OF_MODE[self.mode]}
        if self.mode == "finish":
            found.pop("delay", None)
            found["payload"] = found.pop("result", None)
        if found.get("payload") is None:
            found["payload"] = pa.nulls(rows.num_rows)
        return pa.RecordBatch.from_pydict(found)


def checked_sink(mode: Mode, schema: StructType, queue: str | None) -> SinkColumns:
    """Return the columns of a sink. Raises InvalidInput for columns that this mode does not have."""
    names = tuple(field.name for field in schema.fields)
    for field in schema.fields:
        if field.name in (ID, ERROR) and field.dataType.simpleString() != "string":
            raise InvalidInput(f"the column {field.name} must be of type string; cast it")
    if ID not in names and (mode != "append" or ERROR in names):
        raise InvalidInput(
            f"the column {ID} is missing: the id of the job that a row comes from, which is column id of the stream"
        )
    if mode == "append":
        check_columns(schema, (ID, ERROR))
    else:
        _check_names(mode, schema)
    if queue is None and mode != "finish" and "queue" not in names:
        raise InvalidInput("the target queue is missing: give it by the option to, or by a column queue")
    return SinkColumns(mode, names)


def _check_names(mode: Mode, schema: StructType) -> None:
    known = (ID, ERROR, *_OF_MODE[mode])
    for field in schema.fields:
        if field.name not in known:
            raise InvalidInput(f"the column {field.name!r} is unknown for mode={mode}; known: {', '.join(known)}")
        if field.name in ("payload", "result", "headers"):
            jsonable(field.dataType, field.name)
