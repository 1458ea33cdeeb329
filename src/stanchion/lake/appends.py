"""Rows of jobs in a Delta table, of each job once, whatever process dies.

write     Parquet files, which no version of the table has
look      at a version: which of the jobs does it have, by their ids in the column job_id?
commit    the files of the others, based on that version

All commits have one application, each the next of its versions. So Delta refuses a commit if another one of jobs came
after the version that was looked at, as of a worker that had lost its lease and woke up; then it looks again. Jobs of
several threads that wait for a commit get one together.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from stanchion.core.spark_errors import TableRefused
from stanchion.lake.delta import DeltaTarget, Once
from stanchion.lake.files import DeltaFiles, NewFile, drop

JOB: Final = "job_id"
"""The column with the job that brought a row."""

_APPLICATION: Final = "stanchion:rows of jobs"
_TRIES: Final = 50
"""Commits of others that may come first."""


class _Rows:
    """The rows of a job. `files`: where they are, once written; `error`: why they can't be in the table."""

    def __init__(self, job: str, rows: pa.Table) -> None:
        self.job, self.rows = job, rows
        self.files: list[NewFile] | None = None
        self.ended = False
        self.error: Exception | None = None


class DeltaAppends:
    """Appends rows of jobs to the Delta table in a folder. `schema`: of its rows, with the column `job_id`."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        advice = "add it to the table, or leave the field out"
        self._target = DeltaTarget(folder, schema, advice=advice)
        self._waiting: deque[_Rows] = deque()
        self._one = threading.Lock()

    def prepare(self) -> None:
        """Create the table if it is missing. Raises TableRefused if it does not take the rows, and MissingExtra."""
        self._target.open()

    def append(self, job: str, rows: pa.Table) -> None:
        """Add the rows of a job, unless the table has them; they survive a power failure. Raises TableRefused."""
        mine = _Rows(job, rows)
        self._waiting.append(mine)
        with self._one:
            if not mine.ended:
                waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
                self._commit(waiting)
        if mine.error is not None:
            raise mine.error

    def read(self, limit: int | None) -> pa.Table:
        """Return the rows, with the columns of the schema. Raises TableRefused."""
        return self._target.open().rows(self._target.schema.names, limit).cast(self._target.schema)

    def _commit(self, waiting: Sequence[_Rows]) -> None:
        failed: Exception = TableRefused(str(self._target.folder), "the commit was interrupted")
        try:
            self._commit_once(waiting)
        except (OSError, pa.ArrowException) as error:
            failed = TableRefused(str(self._target.folder), f"{type(error).__name__}: {error}")
        except Exception as error:
            failed = error
        else:
            return
        finally:
            for one in waiting:
                one.error, one.ended = None if one.ended else failed, True

    def _commit_once(self, waiting: Sequence[_Rows]) -> None:
        folder = self._target.folder
        for _ in range(_TRIES):
            table = self._target.open()
            there = table.named(JOB, {one.job for one in waiting})
            new = [one for one in waiting if one.job not in there]
            files = [file for one in new for file in self._files(one)]
            if not files or table.append(files, Once(_APPLICATION, table.last(_APPLICATION) + 1)):
                for one in waiting:
                    one.ended = True
                    if one.job in there:
                        drop(folder, one.files or [])
                return
        raise TableRefused(str(folder), "other writers of the table were faster each time")

    def _files(self, one: _Rows) -> list[NewFile]:
        if one.files is None:
            files = DeltaFiles(self._target.folder, self._target.schema, ())
            for rows in one.rows.to_batches():
                files.add(rows)
            one.files = files.close()
        return one.files
