"""The columns of rows written to a stream."""

from __future__ import annotations

from collections.abc import Sequence
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
ITEM = "item"
OF_SINK = (ID, ITEM, ERROR)
"""The columns that say from which jobs rows come, and why they have no output."""
RETRY_DELAY = 30.0
"""Seconds after which a job with an error is retried, unless its row has a delay."""

_TYPES = {ID: "string", ITEM: "int", ERROR: "string"}
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

    def places(self, rows: pa.RecordBatch) -> list[int | None]:
        """Return the place of the item that each row comes from, in its job; None: the job, or its only item."""
        return rows.column(ITEM).to_pylist() if self.has_ids and ITEM in self.names else [None] * rows.num_rows

    @property
    def own(self) -> tuple[str, ...]:
        """The columns that are no part of new jobs; without ids, `item` may be a field of theirs."""
        return OF_SINK if self.has_ids else (ERROR,)

    def divided(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the rows with an error, and those without."""
        if ERROR not in self.names:
            return rows.slice(0, 0), rows
        failed = pc.is_valid(rows.column(ERROR))
        return rows.filter(failed), rows.filter(pc.invert(failed))

    def given_ids(self, rows: pa.RecordBatch) -> list[str]:
        """Return the ids of the jobs that rows come from. Raises InvalidInput for a missing id."""
        ids: list[str] = rows.column(ID).to_pylist()
        if None in ids:
            raise InvalidInput(f"the column {ID} is null in a row; it is the id of a job that was read")
        return ids

    def ids(self, rows: pa.RecordBatch, seen: set[str]) -> list[str]:
        """Return the ids of jobs. Raises InvalidInput for a missing or duplicate id."""
        ids = self.given_ids(rows)
        check_once(ids, seen)
        return ids

    def delays(self, rows: pa.RecordBatch) -> list[float]:
        """Return the seconds after which jobs with an error are retried."""
        if "delay" not in self.names:
            return [RETRY_DELAY] * rows.num_rows
        return [RETRY_DELAY if one is None else float(one) for one in rows.column("delay").to_pylist()]

    def content(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns of new jobs."""
        if self.mode == "append":
            return rows.select([name for name in rows.schema.names if name not in self.own])
        found = {name: rows.column(name) for name in rows.schema.names if name in _OF_MODE[self.mode]}
        if self.mode == "finish":
            found.pop("delay", None)
            found["payload"] = found.pop("result", None)
        if found.get("payload") is None:
            found["payload"] = pa.nulls(rows.num_rows)
        return pa.RecordBatch.from_pydict(found)


def check_once(ids: Sequence[str], seen: set[str]) -> None:
    """Add ids to those seen before. Raises InvalidInput if one is among them."""
    before = len(seen)
    seen.update(ids)
    if len(seen) < before + len(ids):
        raise InvalidInput(
            f"two rows have the same {ID}, but a job has one outcome; write new jobs with mode=append instead"
        )


def checked_sink(mode: Mode, schema: StructType, queue: str | None, *, packs: bool = False) -> SinkColumns:
    """Return the columns of a sink. Raises InvalidInput for columns that this mode does not have.

    `packs`: jobs carry many rows, so the columns of new jobs are checked by `chunk_maker`.
    """
    names = tuple(field.name for field in schema.fields)
    columns = SinkColumns(mode, names)
    for field in schema.fields:
        wanted = _TYPES[field.name] if field.name in columns.own else field.dataType.simpleString()
        if field.dataType.simpleString() != wanted:
            raise InvalidInput(f"the column {field.name} must be of type {wanted}; cast it")
    if ITEM in names and mode != "append":
        raise InvalidInput(f"the column {ITEM} is for mode=append, as mode={mode} ends whole jobs; leave it out")
    if ID not in names and (mode != "append" or ERROR in names):
        raise InvalidInput(
            f"the column {ID} is missing: the id of the job that a row comes from, which is column id of the stream"
        )
    if mode == "append":
        if not packs:
            check_columns(schema, columns.own)
    else:
        _check_names(mode, schema)
    if queue is None and mode != "finish" and "queue" not in names:
        raise InvalidInput("the target queue is missing: give it by the option to, or by a column queue")
    return columns


def _check_names(mode: Mode, schema: StructType) -> None:
    known = (ID, ERROR, *_OF_MODE[mode])
    for field in schema.fields:
        if field.name not in known:
            raise InvalidInput(f"the column {field.name!r} is unknown for mode={mode}; known: {', '.join(known)}")
        if field.name in ("payload", "result", "headers"):
            jsonable(field.dataType, field.name)
