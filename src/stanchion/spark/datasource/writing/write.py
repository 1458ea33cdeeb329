"""Writing rows as new jobs: tasks stage them, and the driver publishes them once.

tasks      stage rows, invisibly, under the write and a random attempt
driver     publishes the attempts that Spark names, in one step; a stored value of the write makes this idempotent
on abort   staged jobs are deleted; published jobs stay
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.errors import without_traceback
from stanchion.spark.datasource.options import Place, checked_options, job_defaults, place_of
from stanchion.spark.datasource.writing import made_from
from stanchion.spark.datasource.writing.chunk_jobs import ChunkMaker, chunk_maker
from stanchion.spark.datasource.writing.columns import plain_columns
from stanchion.spark.datasource.writing.new_jobs import JobMaker, check_columns, check_target
from stanchion.spark.datasource.writing.packing import packed
from stanchion.spark.datasource.writing.task_stage import TaskStage
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.staging import Publication
from stanchion.streams.publishing import publish

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@without_traceback
def writer_of(given: Mapping[str, str], schema: StructType, overwrite: bool) -> JobsWriter:
    """Return the writer for these options and columns. Raises InvalidInput."""
    options = checked_options(given, "write")
    if overwrite:
        raise InvalidInput("jobs are added to a queue, never replaced: write with .mode('append')")
    given_jobs = options["queue"], options["task"], job_defaults(options)
    rows: int | None = options["rowsPerJob"]
    return JobsWriter(
        place_of(options),
        maker_of(*given_jobs, schema) if rows is None else chunk_maker(JobMaker(*given_jobs), rows, schema),
        options["writeId"] or f"spark:{secrets.token_hex(16)}",
        None if options["writeId"] is None else made_from.of_write(options["writeId"]),
    )


def maker_of(queue: str | None, task: str | None, defaults: Mapping[str, object], schema: StructType) -> JobMaker:
    """Return the maker of jobs from rows with this schema. InvalidInput names the wrong column or option."""
    check_target(queue, check_columns(schema))
    return JobMaker(queue, task, defaults)


@dataclass
class Staged(WriterCommitMessage):
    """The jobs a task has staged under its attempt. `refused`: why it gave up on its rows.

    `carried`: further jobs, which are few enough to be published without a stage.
    """

    attempt: str
    jobs: int
    refused: str | None = None
    carried: Sequence[Prepared] = ()


class JobsWriter(DataSourceArrowWriter):
    """Writes rows as jobs; all or none on stores with transactions. `headers`: of all jobs."""

    def __init__(self, place: Place, maker: JobMaker | ChunkMaker, write: str, headers: str | None = None) -> None:
        self.place, self.maker, self.write_id, self.headers = place, maker, write, headers

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of a task.

        If a row can't be a job, the error is reported rather than raised, as a retry would not help.
        """
        attempt = secrets.token_hex(8)
        with self.place.app() as app:
            stage = TaskStage(app.store, self.write_id, attempt)
            try:
                if isinstance(self.maker, ChunkMaker):
                    for batch in packed(iterator, self.maker.by, self.maker.rows):
                        stage.add_chunks(self._jobs(app, batch))
                    stage.finish()
                else:
                    for batch in iterator:
                        columns = plain_columns(self.maker, context_of(app), batch, self.headers)
                        if columns is None or not stage.add_plain(context_of(app).current_store(), columns):
                            stage.add(self._jobs(app, batch))
            except InvalidInput as error:
                return Staged(attempt, stage.staged, str(error))
        return Staged(attempt, stage.staged, carried=tuple(stage.carried))

    def _jobs(self, app: Stanchion, batch: pa.RecordBatch) -> list[NewJob]:
        jobs = self.maker.jobs(context_of(app), batch)
        return jobs if self.headers is None else made_from.with_headers(jobs, self.headers)

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the staged jobs, unless this write was published before."""
        staged = [message for message in messages if isinstance(message, Staged)]
        refused = [one.refused for one in staged if one.refused is not None]
        with self.place.app() as app:
            if refused:
                app.store.unstage(self.write_id)
                raise InvalidInput(f"{refused[0]}; no row was enqueued")
            attempts = tuple((one.attempt, one.jobs) for one in staged if one.jobs)
            carried = [prepared for one in staged for prepared in one.carried]
            publish(app.store, Publication(self.write_id, attempts), carried)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's call
        """Delete the staged jobs."""
        with self.place.app() as app:
            app.store.unstage(self.write_id)
