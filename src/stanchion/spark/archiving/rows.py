"""The rows of an archive: a job that carries a chunk has a row for each of its items, any other job has one row.

    id, queue, state ...                            of the job, the same in its rows
    item                                            the place of the item in the chunk; null in the only row of a job
    payload, result, arrival_payload, entry_payload of the item
    chunk                                           in the first row of a chunk: its contents, as they were stored

What reads an archive back takes `chunk`, so that a job returns byte by byte: items as JSON would lose the types of
their columns. These jobs keep one row, as stored: divided chunks, whose items are in their parts; encrypted ones; bytes
of other programs. So did all chunks in archives of earlier releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.core.chunks.arrow import counting
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.values.codec import Codec
from stanchion.core.values.framing import as_content, as_text, items_in
from stanchion.errors import StanchionError
from stanchion.spark.datasource.reading.items import ROWS, texts_beside
from stanchion.spark.datasource.reading.schema import (
    COLUMNS,
    CONTENTS,
    ITEM,
    ITEMS,
    arrow_schema,
    batch_of_rows,
    ddl,
    stored_fields,
)
from stanchion.spark.datasource.reading.typed import PAYLOAD
from stanchion.stores.fields.jobs import LONG
from stanchion.stores.records.jobs import JobRow

CHUNK: Final = "chunk"
NAMES: Final = tuple(COLUMNS["history"])
"""The columns of jobs."""
_OF_CHUNK: Final = pa.struct([(name, pa.string()) for name in LONG])
IN_FILES: Final = pa.schema([*arrow_schema("history", NAMES), (ITEM, pa.int32()), (CHUNK, _OF_CHUNK)])
"""The columns of the files; the day is the name of their folder."""
DDL: Final = f"{ddl('history')}, {CHUNK} struct<{', '.join(f'{name}: string' for name in LONG)}>"
"""The columns of the files for Spark."""

FIRST: Final = f"({ITEM} is null or {ITEM} = 0)"
"""Condition in SQL: the row that stands for its job."""
IS_FIRST: Final = pc.field(ITEM).is_null() | (pc.field(ITEM) == 0)

_AS_STORED = Codec()  # without keys, so that encrypted values stay encrypted
_REPEATED = 32 * 1024 * 1024
"""Maximum bytes of the columns of a job in one batch of its rows."""
_UNREADABLE = (StanchionError, pa.ArrowException, TypeError, ValueError)
Values: TypeAlias = dict[str, Any]
"""Values of a row by the names of its columns, which give them their types."""

_NO_CONTENTS: Final[Values] = dict.fromkeys(LONG)


def batches_of(rows: Sequence[JobRow]) -> Iterator[pa.RecordBatch]:
    """Yield finished jobs as rows of an archive."""
    chunks = [row for row in rows if _has_items(row)]
    if len(chunks) < len(rows):
        yield _as_stored([row for row in rows if not _has_items(row)])
    if not chunks:
        return
    jobs = batch_of_rows([row._replace(**_NO_CONTENTS) for row in chunks], "history", NAMES, 0, _AS_STORED)
    for place, row in enumerate(chunks):
        try:
            texts = _texts_of(row)
        except _UNREADABLE:  # encrypted, or of another program
            yield _as_stored([row])
        else:
            yield from _rows_of(row, jobs.slice(place, 1), texts)


def _has_items(row: JobRow) -> bool:
    """Return whether a job carries a chunk that is not divided."""
    return row.items is not None and row.items > 0 and items_in(row.payload) == row.items


def _as_stored(rows: Sequence[JobRow]) -> pa.RecordBatch:
    jobs = batch_of_rows(rows, "history", NAMES, 0, _AS_STORED)
    columns = [*jobs.columns, pa.nulls(len(rows), pa.int32()), _no_contents(len(rows))]
    return pa.RecordBatch.from_arrays(columns, schema=IN_FILES)


def _texts_of(row: JobRow) -> dict[str, pa.Array]:
    """Return the JSON of each item in the contents of a job; its kept payloads are those of the whole chunk."""
    contents = {name: one for name in CONTENTS if isinstance(one := getattr(row, name), bytes)}
    items = Chunk.decoded(contents.pop(PAYLOAD))
    beside = {name: texts_beside(items, Chunk.decoded(one), name) for name, one in contents.items()}
    return {name: texts.cast(pa.string()) for name, texts in {PAYLOAD: items.texts(), **beside}.items()}


def _rows_of(row: JobRow, job: pa.RecordBatch, texts: Mapping[str, pa.Array]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a chunk. `job`: its other columns, repeated in each row."""
    items = len(texts[PAYLOAD])
    size = max(1, min(ROWS, _REPEATED // max(1, job.nbytes)))
    for start in range(0, items, size):
        count = min(size, items - start)
        same = job.take(pa.repeat(pa.scalar(0, pa.int32()), count))
        columns = [texts[name].slice(start, count) if name in texts else same.column(name) for name in NAMES]
        columns += [counting(start, start + count), _contents_of(row, count) if not start else _no_contents(count)]
        yield pa.RecordBatch.from_arrays(columns, schema=IN_FILES)


def _contents_of(row: JobRow, count: int) -> pa.StructArray:
    """Return the column `chunk` of the first `count` rows of a job."""
    contents = {name: None if (one := getattr(row, name)) is None else as_text(one) for name in LONG}
    return pa.concat_arrays([pa.array([contents], _OF_CHUNK), _no_contents(count - 1)])


def _no_contents(count: int) -> pa.StructArray:
    return pa.nulls(count, _OF_CHUNK)


def contents_in(row: Values) -> Values:
    """Return the contents of an archived job by its first row."""
    texts = row if row[CHUNK] is None else row[CHUNK]
    return {name: None if texts[name] is None else as_content(texts[name]) for name in LONG}


def jobs_in(rows: pa.Table) -> int:
    """Return the number of jobs in rows."""
    items = rows.column(ITEM)
    return int(items.null_count + (pc.sum(pc.equal(items, 0)).as_py() or 0))


def items_in_rows(rows: pa.Table) -> int:
    """Return the number of items in rows; a job with one row stands for all its items, a divided chunk for none."""
    alone = pc.if_else(pc.is_null(rows.column(ITEM)), pc.fill_null(rows.column(ITEMS), 1), 1)
    return int(pc.sum(alone).as_py() or 0)


FIELDS: Final = stored_fields(NAMES)
"""The fields of a JobRow with the content of the columns of jobs."""
