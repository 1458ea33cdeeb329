"""Rows as Parquet files of a Delta table, in a folder per partition. A file counts once a commit names it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stanchion.lake.stats import Stats

_ROWS, _BYTES = 1_000_000, 128 * 1024 * 1024
"""Maximum unwritten content in memory, whichever is reached first."""
_NULL = "__HIVE_DEFAULT_PARTITION__"


class NewFile(NamedTuple):
    """A file that is not committed yet. `path`: inside the table; `stats`: JSON in Delta's format."""

    path: str
    partition: tuple[tuple[str, str | None], ...]
    size: int
    rows: int
    stats: str


class DeltaFiles:
    """Writes rows to new files under `folder`, one per partition in the columns `by`."""

    def __init__(self, folder: Path, schema: pa.Schema, by: Sequence[str]) -> None:
        self._folder, self._schema, self._by = folder, schema, list(by)
        self._buffer: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._written: list[NewFile] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows."""
        if not rows.num_rows:
            return
        self._buffer.append(rows.cast(self._schema))
        self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + rows.nbytes
        if self._rows >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def close(self) -> list[NewFile]:
        """Return the files, which are on the disk."""
        self._flush()
        return self._written

    def drop(self) -> None:
        """Delete the files."""
        drop(self._folder, self._written)

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer, self._schema)
        self._buffer, self._rows, self._bytes = [], 0, 0
        for values, rows in _partitions(table, self._by):
            self._written.append(self._write(values, rows))

    def _write(self, values: Sequence[object], rows: pa.Table) -> NewFile:
        partition = tuple(zip(self._by, map(_text, values), strict=True))
        folders = [f"{quote(name, safe='')}={_NULL if one is None else quote(one, safe='')}" for name, one in partition]
        path = "/".join([*folders, f"part-{uuid.uuid4().hex}.parquet"])
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        content = rows.drop_columns(self._by)
        pq.write_table(content, place, compression="zstd")
        # The store commits the jobs once the table has these rows, so they must survive a power failure.
        sync(place)
        for above in place.parents[: len(folders) + 1]:
            sync(above)
        stats = Stats()
        stats.add(content)
        return NewFile(path, partition, place.stat().st_size, rows.num_rows, stats.text)


def sync(place: Path) -> None:
    """Sync a file, or the entries of a folder, to disk."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def drop(folder: Path, files: Sequence[NewFile]) -> None:
    """Delete files that were not committed."""
    for file in files:
        (folder / file.path).unlink(missing_ok=True)


def _partitions(table: pa.Table, by: list[str]) -> Iterator[tuple[list[object], pa.Table]]:
    """Yield the values of each partition, and its rows."""
    if not by:
        yield [], table
        return
    ordered = table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in by]))
    # In one thread, the groups come in the order of their rows.
    groups = ordered.select(by).group_by(by, use_threads=False).aggregate([([], "count_all")])
    first = 0
    for one in groups.to_pylist():
        yield [one[name] for name in by], ordered.slice(first, one["count_all"])
        first += one["count_all"]


def _text(value: object) -> str | None:
    """Return a partition's value in Delta's form: there, an empty text is null."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None or value == "" else str(value)
