"""Turning rows into jobs that carry many of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from stanchion.context.context import Context
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.cutting import fitting_each
from stanchion.core.chunks.plain_columns import plain_values
from stanchion.core.chunks.stored import stored
from stanchion.core.ids import new_id_with_room
from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import make_ready
from stanchion.spark.datasource.json_values import jsonable
from stanchion.spark.datasource.writing.new_jobs import (
    CALLS,
    COLUMNS,
    JobMaker,
    check_column,
    check_target,
    json_texts,
)
from stanchion.stores.records.jobs import NewJob

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PAYLOAD: Final = "payload"
_OF_ITEMS: Final = ("key", "on_duplicate", "order_key")
_OF_ALL: Final = ("headers", "limits", "rate", "rate_by", "rate_key")
"""Columns of a single job, which rows of the same job can't have."""
CUTTING: Final = tuple(sorted(COLUMNS.difference(_OF_ITEMS, _OF_ALL, CALLS, (PAYLOAD,))))
"""The columns beside the payload: rows that differ in one of them are in different jobs."""


@dataclass(frozen=True)
class ChunkMaker:
    """Creates jobs that carry up to `rows` rows each.

    `maker`: of a single job. `by`: the columns with options of jobs. `wrapped`: the column payload has the items; else
    the columns are their fields.
    """

    maker: JobMaker
    rows: int
    by: tuple[str, ...]
    wrapped: bool

    @property
    def queue(self) -> str | None:
        """The queue of rows that name none."""
        return self.maker.queue

    def jobs(self, context: Context, batch: pa.RecordBatch, *, checks_payloads: bool = True) -> list[NewJob]:
        """Return the jobs of rows that agree in the columns `by`. InvalidInput names the wrong column, or the item."""
        if not batch.num_rows:
            return []
        like = self._like(context, batch)
        parts = fitting_each(self._chunks(context.codec, batch), context.codec.max_payload, "item")
        made = [like._replace(id=new_id_with_room(), payload=stored(context.codec, part, "item")) for part in parts]
        make_ready(context, made, checks_payloads=checks_payloads)
        return made

    def _like(self, context: Context, batch: pa.RecordBatch) -> NewJob:
        """Return a job with the options of the rows."""
        options = {name: batch.column(name).slice(0, 1) for name in self.by}
        one = pa.RecordBatch.from_pydict({**options, PAYLOAD: pa.array(["null"])})
        (job,) = self.maker.made(context, one)
        return job

    def _chunks(self, codec: Codec, batch: pa.RecordBatch) -> Iterator[Chunk]:
        if not self.wrapped:
            yield Chunk.of_table(pa.Table.from_batches([batch]))
            return
        payloads = batch.column(PAYLOAD)
        if pa.types.is_struct(payloads.type) and payloads.type.num_fields and not payloads.null_count:
            names = [field.name for field in payloads.type]
            yield Chunk.of_table(pa.Table.from_arrays(payloads.flatten(), names))
        elif pa.types.is_string(payloads.type):
            yield Chunk.of_documents(json_texts(payloads, codec.max_payload))
        else:
            yield Chunk.of(plain_values(payloads), "item")


def chunk_maker(maker: JobMaker, rows: int, schema: StructType, ignored: Iterable[str] = ()) -> ChunkMaker:
    """Return the maker for rows with these columns. Raises InvalidInput for wrong columns or options."""
    if maker.task is not None:
        raise InvalidInput("the option task is for calls, which are one job each; leave out rowsPerJob")
    if "on_duplicate" in maker.defaults:
        raise InvalidInput(
            "the option onDuplicate is for jobs with a key, and a job of many rows has none; leave it out"
        )
    columns = [one for one in schema.fields if one.name not in ignored]
    names = [one.name for one in columns]
    if not names:
        raise InvalidInput("the rows have no columns for the fields of the items; select some")
    if PAYLOAD in names:
        for one in columns:
            if one.name != PAYLOAD:
                _check_cutting(one.name)
            check_column(one.name, one.dataType)
    else:
        _check_fields(names)
        for one in columns:
            jsonable(one.dataType, one.name)
    wrapped = PAYLOAD in names
    by = tuple(name for name in CUTTING if wrapped and name in names)
    check_target(maker.queue, by)
    return ChunkMaker(maker, rows, by, wrapped)


def _check_cutting(name: str) -> None:
    """Raise InvalidInput for a column that a job of many rows can't have."""
    if name in _OF_ITEMS:
        raise InvalidInput(
            f"the column {name} belongs to an item, and with rowsPerJob a job has many: put it into the payload, or "
            f"leave out rowsPerJob"
        )
    if name in CALLS:
        raise InvalidInput(f"the column {name} is for calls of a task, which are one job each; leave out rowsPerJob")
    if name in _OF_ALL:
        raise InvalidInput(
            f"the column {name} can't differ between rows with rowsPerJob; give one value for all as an option, or "
            f"leave out rowsPerJob"
        )


def _check_fields(names: Sequence[str]) -> None:
    """Raise InvalidInput for columns that may be no fields."""
    for name in names:
        if name in COLUMNS:
            raise InvalidInput(
                f"the column {name} can be a field of the items or an option of the jobs; put the fields into a column "
                f"payload, such as struct('*').alias('payload')"
            )
    twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
    if twice is not None:
        raise InvalidInput(f"two columns have the name {twice!r}; rename one of them")
