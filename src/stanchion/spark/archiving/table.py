"""An archive: a Delta table of finished jobs, partitioned by the day of `finished_at`.

Its log decides what it contains: a file counts once a commit names it, and a commit names all files of a batch or
no file. Of two commits based on the same version only one succeeds, by the table's application transaction.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, SchemaMismatchError
from deltalake.transaction import AddAction

from stanchion.core.spark_errors import ArchiveBusy
from stanchion.core.times import micros
from stanchion.errors import InvalidInput
from stanchion.lake.delta import ALL_BOUNDED
from stanchion.lake.files import sync
from stanchion.spark.archiving.files import DAY, Part, Written
from stanchion.spark.archiving.rows import DDL, IN_FILES

if TYPE_CHECKING:
    from deltalake.transaction import RemoveAction
    from pyspark.sql import DataFrame, SparkSession

NAME = "stanchion archive"
_APPLICATION = "stanchion.archive"
_SLACK = 1000
"""Maximum error of the rounded bounds of a compacted file, in microseconds."""
_LOG = "_delta_log"
_SCHEMA = IN_FILES.append(pa.field(DAY, pa.date32()))


class ArchiveTable:
    """The table in a folder, at its version when this object opened or last changed it."""

    def __init__(self, folder: Path, delta: DeltaTable) -> None:
        self.folder, self._delta = folder, delta

    @property
    def version(self) -> int:
        """The version of the table."""
        return self._delta.version()

    def parts(self) -> list[Part]:
        """Return its files."""
        found = pa.table(self._delta.get_add_actions(flatten=True)).to_pylist()
        return [
            Part(
                str(self.folder / one["path"]),
                one["num_records"],
                _bound(one["min.finished_at"], 0) - _SLACK,
                _bound(one["max.finished_at"], 1 << 62) + _SLACK,
            )
            for one in found
        ]

    def rows(self) -> int:
        """Return the number of rows in it."""
        return sum(part.rows for part in self.parts())

    def commit(self, written: Sequence[Written]) -> None:
        """Add files in one step. Raises ArchiveBusy if another process has committed since this object's version."""
        # Delta refuses only transactions committed after our version, not those it contains already.
        last = self._delta.transaction_version(_APPLICATION)
        transaction = Transaction(_APPLICATION, 0 if last is None else last + 1)
        now = int(time.time() * 1000)
        adds: list[AddAction | RemoveAction]
        adds = [AddAction(one.path, one.size, {DAY: one.day}, now, True, one.stats) for one in written]
        try:
            self._delta.create_write_transaction(
                adds,
                "append",
                self._delta.schema(),
                partition_by=[DAY],
                commit_properties=CommitProperties(app_transactions=[transaction]),
            )
        except CommitFailedError:
            raise ArchiveBusy(str(self.folder)) from None
        self._delta.update_incremental()
        log = self.folder / _LOG
        for entry in (log / f"{self.version:020}.json", log):
            sync(entry)

    def marked(self, name: str) -> int | None:
        """Return the number that was recorded under a name last."""
        return self._delta.transaction_version(name)

    def mark(self, name: str, number: int) -> None:
        """Record a number under a name, unless a greater one is there. Do nothing if another process writes first."""
        if number <= (self.marked(name) or 0):
            return
        properties = CommitProperties(app_transactions=[Transaction(name, number)])
        with suppress(CommitFailedError):
            self._delta.create_write_transaction(
                [], "append", self._delta.schema(), partition_by=[DAY], commit_properties=properties
            )
        self._delta.update_incremental()

    def widen(self, fields: Sequence[pa.Field]) -> None:
        """Add columns that the table lacks, and nullable fields that its columns lack.

        Raises InvalidInput for a column of another type. To be called before `parts`, as it moves to the last version.
        """
        known = {field.name: field.type for field in self._delta.schema().fields}
        wanted = Schema.from_arrow(pa.schema(list(fields))).fields
        new = [field for field in wanted if known.get(field.name) != field.type]
        if not new:
            return
        try:
            self._delta.alter.add_columns(new)
        except SchemaMismatchError as error:
            why = str(error).partition("\n")[0]
            raise InvalidInput(f"the archive in {self.folder} has other types of columns: {why}") from None
        except CommitFailedError:
            raise ArchiveBusy(str(self.folder)) from None

    def compact(self) -> int:
        """Merge small files, and delete files in no version of the last week; return the number of files saved."""
        compacted = self._delta.optimize.compact()
        self._delta.update_incremental()
        self._delta.vacuum(dry_run=False, full=True)
        return int(compacted["numFilesRemoved"]) - int(compacted["numFilesAdded"])


def open_archive(folder: Path) -> ArchiveTable | None:
    """Return the archive in a folder, or None. Raises InvalidInput if the folder contains something else."""
    if not folder.is_dir() or not DeltaTable.is_deltatable(str(folder)):
        if folder.exists() and not _could_become(folder):
            raise InvalidInput(f"{folder} contains something other than an archive; use a separate folder")
        return None
    delta = DeltaTable(str(folder))
    if delta.metadata().name != NAME:
        raise InvalidInput(f"{folder} contains a Delta table that is not a Stanchion archive; use another folder")
    return ArchiveTable(folder, delta)


def existing_archive(folder: Path) -> ArchiveTable:
    """Return the archive in a folder. Raises InvalidInput if there is none."""
    found = open_archive(folder)
    if found is None:
        raise InvalidInput(f"there is no archive in {folder}; `stanchion archive {folder}` creates one")
    return found


def new_archive(folder: Path, fields: Sequence[pa.Field] = ()) -> ArchiveTable:
    """Create an archive in a folder, or return the one that another process has created meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    delta = DeltaTable.create(
        str(folder),
        pa.schema([*_SCHEMA, *fields]),
        mode="ignore",
        partition_by=[DAY],
        name=NAME,
        description="Finished jobs, each finish once, a row for each item",
        configuration=ALL_BOUNDED,
    )
    return ArchiveTable(folder, delta)


def widened_archive(folder: Path, fields: Sequence[pa.Field]) -> ArchiveTable | None:
    """Return the archive in a folder, if there is one, with all columns that jobs have now, and these."""
    table = open_archive(folder)
    if table is not None:
        table.widen([*IN_FILES, *fields])
    return table


def _could_become(folder: Path) -> bool:
    """Return whether a folder is empty, or has only files of a run that died before its first commit."""
    return folder.is_dir() and all(one.name == _LOG or one.name.startswith(f"{DAY}=") for one in folder.iterdir())


def _bound(moment: datetime | None, otherwise: int) -> int:
    return otherwise if moment is None else micros(moment)


def archived_jobs(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the archive in a folder as a DataFrame, with the columns of `IN_FILES`: see rows.py."""
    files = [part.place for part in existing_archive(folder).parts()]
    if not files:
        return spark.createDataFrame([], DDL)
    return spark.read.schema(DDL).parquet(*files)
