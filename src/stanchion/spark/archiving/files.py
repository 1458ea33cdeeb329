"""Finished jobs as Parquet files of an archive: one file per day, in that day's folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from stanchion.lake.files import sync
from stanchion.lake.stats import Stats
from stanchion.spark.archiving.rows import IN_FILES, IS_FIRST, batches_of, items_in_rows, jobs_in
from stanchion.spark.archiving.typed import TypedColumns
from stanchion.spark.datasource.reading.schema import TIMESTAMP
from stanchion.stores.records.jobs import JobRow

End = tuple[str, int]
"""A finish: the job's id and `finished_at`. The archive holds each once."""

DAY = "day"
"""The column that names the folders."""

_ROWS, _BYTES = 50_000, 64 * 1024 * 1024
"""Limits of a row group, whichever is reached first."""


class Written(NamedTuple):
    """A new file. `path`: inside the archive; `stats`: JSON in Delta's format; the jobs in it, and their items."""

    path: str
    day: str
    size: int
    stats: str
    jobs: int
    items: int


class Part(NamedTuple):
    """A committed file. `first`, `last`: the bounds of `finished_at`."""

    place: str
    rows: int
    first: int
    last: int


class Files:
    """Writes rows to new files under `folder`, invisible until they are committed."""

    def __init__(self, folder: Path, typed: TypedColumns) -> None:
        self._folder, self._mark, self._typed = folder, uuid.uuid4().hex, typed
        self._schema = pa.schema([*IN_FILES, *typed.fields])
        self._open: dict[str, _File] = {}
        self._buffer: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, rows: Sequence[JobRow]) -> None:
        """Write finished jobs, a row for each item."""
        for batch in map(self._typed.added, batches_of(rows)):
            self._buffer.append(batch)
            self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
            if self._rows >= _ROWS or self._bytes >= _BYTES:
                self._flush()

    def close(self) -> list[Written]:
        """Sync everything to disk; return the files."""
        self._flush()
        return [file.close() for file in self._open.values()]

    def drop(self) -> None:
        """Delete the files."""
        for file in self._open.values():
            file.drop()

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer, self._schema)
        days = pc.strftime(table.column("finished_at"), "%Y-%m-%d")
        for day in pc.unique(days).to_pylist():
            if day not in self._open:
                self._open[day] = _File(self._folder, f"{DAY}={day}/part-{self._mark}.parquet", day, self._schema)
            self._open[day].write(table.filter(pc.equal(days, day)))
        self._buffer, self._rows, self._bytes = [], 0, 0


class _File:
    def __init__(self, folder: Path, path: str, day: str, schema: pa.Schema) -> None:
        self._place, self._path, self._day = folder / path, path, day
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._place, schema, compression="zstd")
        self._stats = Stats()
        self._jobs = self._items = 0

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)
        self._stats.add(table)
        self._jobs, self._items = self._jobs + jobs_in(table), self._items + items_in_rows(table)

    def close(self) -> Written:
        self._writer.close()
        # The store deletes these jobs after the commit, so the files must survive a power failure.
        sync(self._place)
        sync(self._place.parent)
        size = self._place.stat().st_size
        return Written(self._path, self._day, size, self._stats.text, self._jobs, self._items)

    def drop(self) -> None:
        self._writer.close()
        self._place.unlink(missing_ok=True)


def ends_in(places: Sequence[Path], most: int = 100_000) -> Iterator[list[End]]:
    """Yield the finishes in files, in batches."""
    for place in places:
        rows = ds.dataset(place, schema=IN_FILES, format="parquet")
        for batch in rows.to_batches(columns=["id", "finished_at"], filter=IS_FIRST, batch_size=most):
            moments = batch.column(1).cast(TIMESTAMP).cast(pa.int64()).to_pylist()
            yield list(zip(batch.column(0).to_pylist(), moments, strict=True))


def drop(folder: Path, written: Sequence[Written]) -> None:
    """Delete files that were not committed."""
    for file in written:
        (folder / file.path).unlink(missing_ok=True)
