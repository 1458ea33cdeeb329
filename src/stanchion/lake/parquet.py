"""Rows of jobs in a folder of Parquet files: one file for each job, with the job's name.

The rows of a job never change, so a second attempt replaces its file by an equal one. A file gets its name once it is
complete and on the disk; readers skip names that begin with a dot or an underscore.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from stanchion.core.spark_errors import TableRefused
from stanchion.lake.files import sync

_SCHEMA: Final = "_common_metadata"
_UNFINISHED: Final = ".part-*"
_ABANDONED: Final = 24 * 3600
"""Seconds after which an unfinished file is deleted: its process has died."""


class ParquetFolder:
    """Adds rows of jobs to the Parquet files of a folder. `schema`: of the rows."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._schema = folder, schema

    def prepare(self) -> None:
        """Create the folder if it is missing. Raises TableRefused if its files have other columns."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._check()
            for file in self._folder.glob(_UNFINISHED):
                with suppress(FileNotFoundError):
                    if file.stat().st_mtime < time.time() - _ABANDONED:
                        file.unlink()
        except (OSError, pa.ArrowException) as error:
            raise TableRefused(str(self._folder), f"{type(error).__name__}: {error}") from None

    def append(self, job: str, rows: pa.Table) -> None:
        """Write the file of a job; it survives a power failure. Raises TableRefused."""
        try:
            self._write(self._folder / f"part-{job}.parquet", lambda place: pq.write_table(rows, place))
        except (OSError, pa.ArrowException) as error:
            raise TableRefused(str(self._folder), f"{type(error).__name__}: {error}") from None

    def read(self, limit: int | None) -> pa.Table:
        """Return the rows, in the order of their files. Raises TableRefused."""
        found, rows = [], 0
        try:
            for file in sorted(self._folder.glob("[!._]*.parquet")):
                if limit is not None and rows >= limit:
                    break
                found.append(pq.read_table(file, schema=self._schema, partitioning=None))
                rows += found[-1].num_rows
        except (OSError, pa.ArrowException) as error:
            raise TableRefused(str(self._folder), f"{type(error).__name__}: {error}") from None
        table = pa.concat_tables(found) if found else self._schema.empty_table()
        return table if limit is None else table.slice(0, limit)

    def _check(self) -> None:
        known = next(iter(sorted(self._folder.glob("[!._]*.parquet"), reverse=True)), self._folder / _SCHEMA)
        if not known.exists():
            self._write(known, lambda place: pq.write_metadata(self._schema, place))
            return
        there = pq.read_schema(known)
        for field in self._schema:
            if field.name not in there.names:
                raise TableRefused(
                    str(self._folder),
                    f"its files have no column {field.name}: choose another folder, or leave the field out",
                )
            if (kind := there.field(field.name).type) != field.type:
                raise TableRefused(str(self._folder), f"its column {field.name} is of type {kind}, not {field.type}")

    def _write(self, place: Path, write: Callable[[Path], object]) -> None:
        unfinished = place.with_name(f".part-{uuid.uuid4().hex}")
        try:
            write(unfinished)
            sync(unfinished)
            unfinished.replace(place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        sync(self._folder)
