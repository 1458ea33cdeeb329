"""The steps of an archive run: read, write, commit, purge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stanchion.app import Stanchion
from stanchion.core.spark_errors import ArchiveBusy
from stanchion.errors import InvalidInput
from stanchion.spark.archiving.done import Archive
from stanchion.spark.archiving.files import Written, drop, ends_in
from stanchion.spark.archiving.parts import Archived, Purger, end_of, fresh, write_part
from stanchion.spark.archiving.table import ArchiveTable, new_archive, widened_archive
from stanchion.spark.archiving.typed import TypedColumns
from stanchion.stores.hand_over import weight
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 100_000
"""Finished jobs per commit, if this process reads them."""
_CHARACTERS = 256 * 1024 * 1024
"""Characters of the jobs of one commit, which are in memory together."""


class Run:
    """One run over a query of history; records the result in `done`."""

    def __init__(
        self,
        app: Stanchion,
        folder: Path,
        query: Query,
        typed: TypedColumns,
        done: Archive,
        watch: Callable[[int], None],
        *,
        keep: bool,
    ) -> None:
        self._app, self._folder, self._query, self._typed = app, folder, query, typed
        self._done, self._watch, self._keep = done, watch, keep

    def here(self, most: int | None) -> bool:
        """Archive batch by batch in this process; return True if it stopped after `most` jobs."""
        found = pages(self._app.store, self._query)
        while batch := list(_up_to(BATCH, found)):
            self._batch(batch)
            if most is not None and self._done.archived >= most:
                return True
        return False

    def _batch(self, batch: Sequence[list[JobRow]]) -> None:
        table = widened_archive(self._folder, self._typed.fields)
        purger = Purger(self._app.store, keep=self._keep)
        rows = list(fresh(batch, Archived(table.parts() if table else ()), purger))
        if rows:
            self._commit(table, write_part(self._folder, rows, self._typed))
            purger.purge([end_of(row) for page in rows for row in page])
        self._done.purged += purger.purged

    def in_spark(self, spark: SparkSession | None) -> None:
        """Archive everything in one commit, by the executors of Spark."""
        from stanchion.spark.archiving.spark_run import write_all

        self._done.engine = "spark"
        table = widened_archive(self._folder, self._typed.fields)
        parts = table.parts() if table else []
        query = replace(self._query, order="id")  # the parts are ranges of ids
        written, purged = write_all(self._app, self._folder, query, parts, self._typed, keep=self._keep, spark=spark)
        self._done.purged += purged
        if not written:
            return
        self._check_visible(written)
        self._commit(table, written)
        purger = Purger(self._app.store, keep=self._keep)
        for ends in () if self._keep else ends_in([self._folder / one.path for one in written]):
            purger.purge(ends)
        self._done.purged += purger.purged

    def _check_visible(self, written: list[Written]) -> None:
        """Refuse files that this process can't see, as they are on the disk of another machine."""
        for one in written:
            place = self._folder / one.path
            if not place.is_file() or place.stat().st_size != one.size:
                raise InvalidInput(
                    f"an executor of Spark has written {place}, which this process can't see, so no job was archived; "
                    f"use a folder that all machines share under the same path"
                )

    def _commit(self, table: ArchiveTable | None, written: list[Written]) -> None:
        try:
            (table or new_archive(self._folder, self._typed.fields)).commit(written)
        except ArchiveBusy:
            drop(self._folder, written)
            raise
        self._done.archived += sum(one.jobs for one in written)
        self._done.items += sum(one.items for one in written)
        self._done.files += len(written)
        self._watch(self._done.archived)


def _up_to(count: int, pages: Iterator[list[JobRow]]) -> Iterator[list[JobRow]]:
    """Yield pages until they reach `count` jobs or _CHARACTERS, or slightly more."""
    given = characters = 0
    while given < count and characters < _CHARACTERS and (page := next(pages, None)) is not None:
        given, characters = given + len(page), characters + sum(map(weight, page))
        yield page
