"""Writing a stream: new jobs, or what becomes of the jobs that were read.

mode=append    rows become new jobs. With `stream` the jobs of its batch are committed in the same step, and the batch
               is acknowledged: exactly once. Needs a store with transactions over several jobs. What a query makes of
               its state alone, or of other streams, is stored once for its batch
mode=move      each row has the id of a job that was read, and sends it on to another queue
mode=finish    each row has the id of a job that was read, and its result

Move and finish settle job by job, each in one step, so they are exactly once on every store. Jobs that have no row are
committed as the batch ends.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from stanchion.app import Stanchion
from stanchion.errors import InvalidInput, StanchionError, StreamTaken
from stanchion.queue import batches, portions
from stanchion.spark.enqueue import JobMaker
from stanchion.spark.errors import said_plainly
from stanchion.spark.options import Place, checked_options, job_defaults, place_of
from stanchion.spark.runs import has_state, this_batch, this_run
from stanchion.spark.stream_rows import ERROR, Mode, SinkColumns, checked_sink
from stanchion.stores.records import Bury, Commit, Move, NewJob, Outcome, Publication, Rollback
from stanchion.streams import SinkBatch

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@said_plainly
def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer for these options and columns; InvalidInput says what to mend."""
    options = checked_options(given, "writeStream")
    if overwrite:
        raise InvalidInput("jobs are added to a queue and replace none: write with .outputMode('append')")
    mode: Mode = options["mode"]
    stream, queue = options["ackStream"] or options["stream"], options["to"] or options["queue"]
    if stream is None and mode != "append":
        raise InvalidInput(f"mode={mode} needs the option stream: the stream that the rows were read from")
    columns = checked_sink(mode, schema, queue)
    # Results are made as payloads are; no queue gets them.
    maker = JobMaker(queue or mode, options["task"], job_defaults({**options, "queue": queue}))
    checkpoint = next((value for name, value in given.items() if name.lower() == "checkpointlocation"), None)
    return StreamWriter(
        place_of(options), mode, stream, columns, maker, options["errors"], options["writeId"], checkpoint
    )


@dataclass
class Written(WriterCommitMessage):
    """What a task has done, in which run; `refused` says why it gave up on its rows."""

    run: str
    write: str
    attempt: str
    staged: int = 0
    settled: int = 0
    rows: int = 0
    refused: str | None = None


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of micro-batches. Spark makes one for the tasks of a batch and another for its end."""

    def __init__(
        self,
        place: Place,
        mode: Mode,
        stream: str | None,
        columns: SinkColumns,
        maker: JobMaker,
        errors: str,
        write: str | None,
        checkpoint: str | None = None,
    ) -> None:
        self.place, self.mode, self.stream, self.columns, self.maker = place, mode, stream, columns, maker
        self.errors, self.write_id, self.checkpoint = errors, write, checkpoint

    # -- in tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage or settle the rows of a task.

        A row that can't be a job is reported rather than raised: trying again would not help.
        """
        done = Written(this_run() or "", f"{self.write_id or 'spark'}:{this_batch()}", secrets.token_hex(8))
        seen: set[str] = set()
        with self.place.app() as app:
            for rows in iterator:
                if rows.num_rows and done.refused is None:
                    done.rows += rows.num_rows
                    try:
                        self._take(app, rows, done, seen)
                    except InvalidInput as error:
                        done.refused = str(error)
        return done

    def _take(self, app: Stanchion, rows: pa.RecordBatch, done: Written, seen: set[str]) -> None:
        batch = None if self.stream is None else SinkBatch.read_by(app.store, self.stream, done.run)
        if batch is not None and batch.acknowledged:  # this run comes after one that was finished: nothing of it counts
            return
        failed, good = self.columns.divided(rows)
        if self.mode == "append":
            for portion in (portion for some in batches(self._jobs(app, good)) for portion in portions(some)):
                app.store.stage(done.write, done.attempt, portion)
                done.staged += len(portion)
            if not failed.num_rows:
                return
        elif has_state(self.checkpoint):
            raise InvalidInput(
                f"a query with state can't be written with mode={self.mode}, which settles each job before Spark's log "
                f"has the batch; write new jobs with mode=append"
            )
        if batch is None:  # the rows are of another stream, or of none
            if self.mode == "append":
                raise InvalidInput(f"a row with an error is of no job that the stream {self.stream!r} has read")
            raise StreamTaken(cast("str", self.stream))
        if failed.num_rows:
            done.settled += batch.settle(self._failures(failed, batch.token, seen))
        if self.mode != "append":
            done.settled += batch.settle(self._outcomes(app, good, batch.token, seen))

    def _jobs(self, app: Stanchion, rows: pa.RecordBatch) -> list[NewJob]:
        return self.maker.jobs(app, self.columns.content(rows)) if rows.num_rows else []

    def _outcomes(self, app: Stanchion, rows: pa.RecordBatch, token: str, seen: set[str]) -> list[Outcome]:
        ids, jobs = self.columns.ids(rows, seen), self._jobs(app, rows)
        with_content = self.columns.has_content
        if self.mode == "finish":
            return [
                Commit(job_id, token, job.payload if with_content else None)
                for job_id, job in zip(ids, jobs, strict=True)
            ]
        return [
            Move(
                job_id, token, job.queue, job.payload if with_content else None, job.delay or 0.0, job.lane, job.headers
            )
            for job_id, job in zip(ids, jobs, strict=True)
        ]

    def _failures(self, rows: pa.RecordBatch, token: str, seen: set[str]) -> list[Outcome]:
        ids, errors = self.columns.ids(rows, seen), rows.column(ERROR).to_pylist()
        if self.errors == "bury":
            return [Bury(job_id, token, error) for job_id, error in zip(ids, errors, strict=True)]
        delays = self.columns.delays(rows)
        return [Rollback(job_id, token, delay, error) for job_id, error, delay in zip(ids, errors, delays, strict=True)]

    # -- on the driver

    @said_plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """End the batch: all of it once, whatever was repeated of it."""
        done = [cast("Written", message) for message in messages if message is not None]
        if not done:
            return  # nothing was read; the reader acknowledges
        attempts = [(one.attempt, one.staged) for one in done if one.staged]
        refused = [one.refused for one in done if one.refused is not None]
        with self.place.app() as app:
            batch = None if self.stream is None else SinkBatch.read_by(app.store, self.stream, done[0].run)
            if refused:
                if batch is not None:
                    batch.failed(f"InvalidInput: {refused[0]}")
                raise InvalidInput(f"{refused[0]}; this batch is not finished: correct the query and start it again")
            if batch is None:  # rows of elsewhere: of other streams, or of the state of the query
                if self.mode != "append" and any(one.rows for one in done):
                    raise StreamTaken(cast("str", self.stream))
                if attempts or self.stream is None:
                    app.store.publish(Publication(done[0].write, tuple(attempts)))
            elif self.mode == "append":
                settled = sum(one.settled for one in done)
                stateless = has_state(self.checkpoint) is False
                batch.publish(attempts, settled, write=done[0].write, stateless=stateless)
            else:
                batch.drop_rest()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Write down that the query has failed on its batch; what is staged goes in the end, or after a day."""
        if self.stream is None:
            return
        with self.place.app() as app, suppress(StanchionError):
            found = SinkBatch.pending(app.store, self.stream)
            if found is not None and found[0].is_read_in(f":{batchId}"):
                found[0].failed("the query has failed; the log of Spark's driver says why")
