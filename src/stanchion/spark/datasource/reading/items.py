"""Rows of items: a job that carries a chunk is a row for each of its items, any other job is one row.

    id, queue, state ...                            of the job, the same in its rows
    item                                            the place of the item in the chunk; null of other jobs
    payload, result, arrival_payload, entry_payload of the item

The items of a divided chunk are in its parts, so it has no row in history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.encoding import NotAChunk
from stanchion.core.chunks.stored import opened
from stanchion.core.values.codec import Codec, is_sealed_chunk
from stanchion.core.values.framing import as_content, items_in
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.reading.schema import (
    CONTENTS,
    ITEM,
    ITEMS,
    Of,
    batch_of_arrow,
    batch_of_rows,
    stored_fields,
)
from stanchion.spark.datasource.reading.typed import PAYLOAD, TypedPayloads, with_needed
from stanchion.stores.records.jobs import JobRow

RESULT: Final = "result"
"""The column with what a job returned; null if that is nothing, also of an item."""

ROWS: Final = 10_000
"""Rows from which they are passed on; a chunk of more is passed on as a whole."""


class ItemRows(NamedTuple):
    """Makes rows with these columns of jobs. `typed`: makes their payloads structs."""

    of: Of
    names: Sequence[str]
    typed: TypedPayloads | None = None

    @property
    def shown(self) -> list[str]:
        """The columns of jobs that the rows are made from."""
        names = [*self.names] if self.typed is None else with_needed(self.names)
        if not CONTENTS.isdisjoint(names) and PAYLOAD not in names:
            names.append(PAYLOAD)
        return [*(name for name in names if name not in (ITEM, ITEMS)), ITEMS]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of JobRow that they are made from."""
        return stored_fields(self.shown)

    def of_arrow(self, app: Stanchion, stored: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of jobs, which are given by `fields`."""
        yield from self._rows(app, batch_of_arrow(stored, self.of, self.shown, context_of(app).codec))

    def of_rows(self, app: Stanchion, rows: Sequence[JobRow], *, again: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of jobs. `again`: jobs in history have all the items that they had, also divided ones."""
        if again:
            rows = [row._replace(items=items_in(row.payload)) for row in rows]
        yield from self._rows(app, batch_of_rows(rows, self.of, self.shown, app.store.now(), context_of(app).codec))

    def _rows(self, app: Stanchion, jobs: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if jobs.column(ITEMS).null_count == jobs.num_rows:
            yield self._of_jobs(app, jobs)
        else:
            yield from _together(self._pieces(app, jobs))

    def _pieces(self, app: Stanchion, jobs: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each chunk, and the rows of the other jobs between two chunks."""
        first = 0
        carried = jobs.column(ITEMS).to_pylist()
        for place, items in enumerate(carried):
            if items is None:
                continue
            if first < place:
                yield self._of_jobs(app, jobs.slice(first, place - first))
            if items:
                yield self._of_chunk(app, jobs.slice(place, 1), items)
            first = place + 1
        if first < jobs.num_rows:
            yield self._of_jobs(app, jobs.slice(first))

    def _of_jobs(self, app: Stanchion, jobs: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of jobs that carry one item each."""
        rows = jobs.append_column(ITEM, pa.nulls(jobs.num_rows, pa.int32()))
        if self.typed is not None:
            return self.typed.applied(app, rows, self.names)
        return rows.select(list(self.names))

    def _of_chunk(self, app: Stanchion, job: pa.RecordBatch, items: int) -> pa.RecordBatch:
        """Return the rows of the items of one job."""
        contents = _Contents(job, items, context_of(app).codec)
        if (found := self._typed(app, contents)) is not None:
            columns = [found if name == PAYLOAD else contents.column(name) for name in self.names]
            return pa.RecordBatch.from_arrays(columns, names=list(self.names))
        wanted = self.names if self.typed is None else [*with_needed(self.names), ITEM]
        names = list(dict.fromkeys(wanted))
        rows = pa.RecordBatch.from_arrays([contents.column(name) for name in names], names=names)
        return rows if self.typed is None else self.typed.applied(app, rows, self.names)

    def _typed(self, app: Stanchion, contents: _Contents) -> pa.StructArray | None:
        """Return typed payloads if the columns of the chunk decide that they fit."""
        columns = None if self.typed is None else contents.columns()
        return None if self.typed is None or columns is None else self.typed.of_columns(app, columns)


class _Contents:
    """The columns of the items of one job."""

    def __init__(self, job: pa.RecordBatch, items: int, codec: Codec) -> None:
        self._job, self._items, self._codec = job, items, codec
        self._payload: Chunk | None = None

    def columns(self) -> pa.Table | None:
        """Return the typed columns of the payloads, if they have some."""
        return self._chunk().columns()

    def column(self, name: str) -> pa.Array:
        """Return a column."""
        if name == ITEM:
            return pa.array(range(self._items), pa.int32())
        if name not in CONTENTS:
            return pa.repeat(self._job.column(name)[0], self._items)
        if name == PAYLOAD:
            return self._chunk().texts()
        found = self._opened(name)
        if found is None:
            return pa.nulls(self._items, pa.string())
        return texts_beside(self._chunk(), found, name)

    def _chunk(self) -> Chunk:
        if self._payload is None:
            self._payload = self._opened(PAYLOAD)
            if self._payload is None:
                raise NotAChunk("they are text")
        return self._payload

    def _opened(self, name: str) -> Chunk | None:
        """Return the chunk in a column; None for none, and for the text of a single item."""
        text: str | None = self._job.column(name)[0].as_py()
        content = None if text is None else as_content(text)
        if not isinstance(content, bytes):
            return None
        if is_sealed_chunk(content) and not self._codec.has_keys:
            raise InvalidInput(
                "the items of a job are encrypted; give the option keys, or select columns without the contents of jobs"
            )
        return opened(self._codec, content)


def texts_beside(items: Chunk, other: Chunk, name: str) -> pa.Array:
    """Return the JSON of the results, or of the payloads of before, beside the items at the same positions.

    `name`: the column of `other`. Null where it has none, and for a result of null.
    """
    places = pc.index_in(items.content().all_positions(), value_set=other.content().all_positions())
    texts = other.texts().take(places)
    return pc.if_else(pc.equal(texts, "null"), None, texts) if name == RESULT else texts


def _together(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of about ROWS."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += piece.num_rows
        if rows >= ROWS:
            yield _joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
