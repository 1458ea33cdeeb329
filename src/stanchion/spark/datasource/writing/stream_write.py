"""Writing a stream: new jobs, or outcomes of the jobs that were read.

mode=append    rows become new jobs. With `stream`, the same step commits the jobs of its batch and acknowledges it:
               exactly once. Needs a store with transactions over several jobs. Rows from the state of the query
               alone, or from other streams, are stored once per batch
mode=move      each row has the id of a job that was read, and moves it to another queue
mode=finish    each row has the id of a job that was read, and its result
mode=delta     rows are added to a Delta table: delta/sink.py

Move and finish settle each job in one step, so they are exactly once on every store. Jobs without a row are committed
at the end of the batch.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.core.spark_errors import StreamTaken
from stanchion.core.values.framing import items_in
from stanchion.errors import InvalidInput, StanchionError
from stanchion.spark.datasource.delta.sink import DeltaSink, delta_sink
from stanchion.spark.datasource.errors import without_traceback
from stanchion.spark.datasource.options import Place, checked_options, given_options, job_defaults, place_of
from stanchion.spark.datasource.runs import has_state, this_batch, this_run
from stanchion.spark.datasource.stream_station import FailedItem, StreamStation, outcome_of
from stanchion.spark.datasource.writing import made_from
from stanchion.spark.datasource.writing.chunk_jobs import ChunkMaker, chunk_maker
from stanchion.spark.datasource.writing.columns import plain_columns
from stanchion.spark.datasource.writing.new_jobs import JobMaker
from stanchion.spark.datasource.writing.packing import packed
from stanchion.spark.datasource.writing.stream_rows import (
    ERROR,
    Mode,
    SinkColumns,
    check_once,
    checked_sink,
)
from stanchion.spark.datasource.writing.task_stage import TaskStage
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit, Ending, Move, Outcome
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.staging import Publication
from stanchion.streams import SinkBatch
from stanchion.streams.publishing import publish
from stanchion.streams.sink import QUERY_FAILED
from stanchion.streams.state import StreamState

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_OF_TABLES = ("path", "partitionBy", "mergeSchema")
_OF_STREAMS = ("url", "keys", "stream", "ackStream", "mode")


@without_traceback
def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter | DeltaSink:
    """Return the writer for these options and columns. Raises InvalidInput."""
    options = checked_options(given, "writeStream")
    if overwrite:
        raise InvalidInput("rows are added, never replaced: write with .outputMode('append')")
    _check_use(given, options["mode"])
    checkpoint = next((value for name, value in given.items() if name.lower() == "checkpointlocation"), None)
    if options["mode"] == "delta":
        return delta_sink(options, schema, checkpoint)
    mode: Mode = options["mode"]
    stream, queue = options["ackStream"] or options["stream"], options["to"] or options["queue"]
    if stream is None and mode != "append":
        raise InvalidInput(f"mode={mode} needs the option stream: the stream that the rows were read from")
    rows: int | None = options["rowsPerJob"]
    if rows is not None and mode != "append":
        raise InvalidInput(f"the option rowsPerJob is for mode=append, as mode={mode} makes no new jobs; leave it out")
    columns = checked_sink(mode, schema, queue, packs=rows is not None)
    # Results are encoded like payloads; no queue gets them.
    single = JobMaker(queue or mode, options["task"], job_defaults({**options, "queue": queue}))
    maker = single if rows is None else chunk_maker(single, rows, schema, columns.own)
    return StreamWriter(
        place_of(options), mode, stream, columns, maker, options["errors"], options["writeId"], checkpoint
    )


def _check_use(given: Mapping[str, str], mode: str) -> None:
    """Raise InvalidInput for an option of new jobs where rows go to a table, or the other way round."""
    for name in given_options(given, "writeStream"):
        if name in _OF_TABLES and mode != "delta":
            raise InvalidInput(f"the option {name} is for mode=delta alone; leave it out")
        if mode == "delta" and name not in _OF_TABLES and name not in _OF_STREAMS:
            raise InvalidInput(f"the option {name} is for new jobs; mode=delta writes rows to a table: leave it out")


@dataclass
class Written(WriterCommitMessage):
    """The result of a task and its run. `refused`: why it gave up on its rows.

    `carried`: new jobs that are few enough to be published without a stage.
    """

    run: str
    write: str
    attempt: str
    staged: int = 0
    settled: int = 0
    rows: int = 0
    refused: str | None = None
    carried: tuple[Prepared, ...] = ()
    failed: list[FailedItem] = field(default_factory=list)
    """Items of jobs of many, which end with the batch."""


@dataclass(frozen=True)
class Made:
    """Rows, the jobs made from them, and the failures of rows that can't be jobs."""

    rows: pa.RecordBatch
    jobs: list[NewJob]
    misfits: Sequence[FailedItem] = ()


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of micro-batches. Spark creates one for the tasks of a batch and another for its end."""

    def __init__(
        self,
        place: Place,
        mode: Mode,
        stream: str | None,
        columns: SinkColumns,
        maker: JobMaker | ChunkMaker,
        errors: str,
        write: str | None,
        checkpoint: str | None = None,
    ) -> None:
        self.place, self.mode, self.stream, self.columns, self.maker = place, mode, stream, columns, maker
        self.errors, self.write_id, self.checkpoint = errors, write, checkpoint

    # -- in tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage or settle the rows of a task.

        If a row can't be a job, the job that it comes from is buried. If that is unknown, the error is reported rather
        than raised, as a retry would not help.
        """
        done = Written(this_run() or "", f"{self.write_id or 'spark'}:{this_batch()}", secrets.token_hex(8))
        seen: set[str] = set()
        with self.place.app() as app:
            stage = TaskStage(app.store, done.write, done.attempt)
            for rows in self._together(iterator):
                if rows.num_rows and done.refused is None:
                    done.rows += rows.num_rows
                    try:
                        self._take(app, rows, done, stage, seen)
                    except InvalidInput as error:
                        done.refused = str(error)
            stage.finish()
            done.staged, done.carried = stage.staged, tuple(stage.carried)
        return done

    def _together(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each job that carries many."""
        return packed(iterator, self.maker.by, self.maker.rows) if isinstance(self.maker, ChunkMaker) else iterator

    def _take(self, app: Stanchion, rows: pa.RecordBatch, done: Written, stage: TaskStage, seen: set[str]) -> None:
        batch = None if self.stream is None else SinkBatch.read_by(app.store, self.stream, done.run)
        if batch is not None and batch.acknowledged:  # an earlier run finished the batch, so this one has no effect
            return
        if self.mode != "append" and has_state(self.checkpoint):
            raise InvalidInput(
                f"a stateful query can't be written with mode={self.mode}, which settles each job before Spark's log "
                f"has the batch; write new jobs with mode=append"
            )
        failed, good = self.columns.divided(rows)
        headers = made_from.of_batch(done.write, self.stream, batch)
        if self.mode == "append" and self._took_plain(app, good, stage, headers):
            made = Made(good, [])
        else:
            made = self._made(app, good, buries=batch is not None and batch.items > 1)
        if self.mode == "append":
            jobs = made_from.with_headers(made.jobs, headers)
            if isinstance(self.maker, ChunkMaker):
                stage.add_chunks(jobs)
            else:
                stage.add(jobs)
        elif batch is not None:
            if self.columns.has_content and batch.has_chunks:
                self._check_whole(app, batch, self.columns.ids(made.rows, set()), "its rows can't be its content")
            done.settled += batch.settle(self._outcomes(made, batch.state, seen))
        elif rows.num_rows:
            raise self._taken()
        failures = [*self._failures(failed), *made.misfits]
        if not failures:
            return
        if batch is None:  # the rows are from another stream, or from none
            raise InvalidInput(f"a row with an error belongs to no job that the stream {self.stream!r} has read")
        whole = [one for one in failures if one.place is None]
        check_once([one.job for one in whole], seen)
        if self.mode == "append":
            self._check_whole(app, batch, [one.job for one in whole], "name the failed ones in the column item")
        done.settled += batch.settle([outcome_of(batch.state.lease(one.job), one) for one in whole])
        done.failed += [one for one in failures if one.place is not None]

    def _check_whole(self, app: Stanchion, batch: SinkBatch, ids: Sequence[str], reason: str) -> None:
        """Raise InvalidInput if one of these jobs carries many items, which a single row must not end."""
        if not (ids and batch.has_chunks):
            return
        for job, row in app.store.fetch(ids).items():
            if (items := items_in(row.payload)) is not None and items > 1:
                raise InvalidInput(f"job {job} carries {items:,} items: {reason}, or write new jobs with mode=append")

    def _taken(self) -> StreamTaken:
        assert self.stream is not None  # noqa: S101 - other modes than append have one
        return StreamTaken(self.stream)

    def _took_plain(self, app: Stanchion, rows: pa.RecordBatch, stage: TaskStage, headers: str) -> bool:
        """Take rows as a whole, without processing them singly, if their jobs allow it."""
        if isinstance(self.maker, ChunkMaker):
            return False
        columns = plain_columns(self.maker, context_of(app), self.columns.content(rows), headers)
        return columns is not None and stage.add_plain(context_of(app).current_store(), columns)

    def _made(self, app: Stanchion, rows: pa.RecordBatch, *, buries: bool) -> Made:
        """Return the jobs of these rows. With `buries`, leave out rows that can't be jobs, unless none can."""
        if not rows.num_rows:
            return Made(rows, [])
        try:
            return Made(rows, self._jobs(app, rows))
        except InvalidInput:
            if not buries or self.errors != "bury" or not self.columns.has_ids:
                raise
            misfits = self._misfits(app, rows)
            fit = rows.take(pa.array([place for place in range(rows.num_rows) if place not in misfits], pa.int64()))
            if not fit.num_rows and rows.num_rows > 1:  # the query is at fault, not a row
                raise
            failures = self._failures_of(rows.take(pa.array(misfits, pa.int64())), [*misfits.values()])
            return Made(fit, self._jobs(app, fit) if fit.num_rows else [], failures)

    def _jobs(self, app: Stanchion, rows: pa.RecordBatch) -> list[NewJob]:
        content = self.columns.content(rows)
        if self.mode == "append" or (self.mode == "move" and self.columns.has_content):
            return self.maker.jobs(context_of(app), content)
        jobs = self.maker.jobs(context_of(app), content, checks_payloads=False)
        if self.mode == "move":
            self._check_moves(app, rows, jobs)
        return jobs

    def _check_moves(self, app: Stanchion, rows: pa.RecordBatch, jobs: Sequence[NewJob]) -> None:
        """Raise PayloadMisfit for a job whose kept payload does not fit the schema of its next queue."""
        schemas, store = context_of(app).schemas, app.store
        concerned = context_of(app).settings.of(store, {job.queue for job in jobs})
        if any(schemas.in_force(store, queue) for queue in concerned):
            ids = self.columns.ids(rows, set())
            found = store.fetch(ids)
            going = [
                job._replace(payload=found[one].payload, task=found[one].task)
                for one, job in zip(ids, jobs, strict=True)
                if one in found
            ]
            schemas.check(store, context_of(app).codec, going, concerned)

    def _misfits(self, app: Stanchion, rows: pa.RecordBatch, first: int = 0) -> dict[int, str]:
        """Return the places of the rows that can't be jobs, and the reason, by bisection. `first`: of the first row."""
        try:
            self._jobs(app, rows)
        except InvalidInput as error:
            if rows.num_rows == 1:
                return {first: f"InvalidInput: {error}"}
            half = rows.num_rows // 2
            before = self._misfits(app, rows.slice(0, half), first)
            return {**before, **self._misfits(app, rows.slice(half), first + half)}
        return {}

    def _outcomes(self, made: Made, state: StreamState, seen: set[str]) -> list[Outcome]:
        reserved = zip(map(state.lease, self.columns.ids(made.rows, seen)), made.jobs, strict=True)
        with_content = self.columns.has_content
        if self.mode == "finish":
            return [Commit(lease, job.payload if with_content else None) for lease, job in reserved]
        return [
            Move(
                lease,
                job.queue,
                job.payload if with_content else None,
                job.delay or 0.0,
                job.lane,
                job.headers,
                order_key=job.order_key,
            )
            for lease, job in reserved
        ]

    def _failures(self, rows: pa.RecordBatch) -> list[FailedItem]:
        """Return the failures in rows with an error."""
        if not rows.num_rows:
            return []
        delays = None if self.errors == "bury" else self.columns.delays(rows)
        return self._failures_of(rows, rows.column(ERROR).to_pylist(), delays)

    def _failures_of(
        self, rows: pa.RecordBatch, errors: Sequence[str], delays: Sequence[float] | None = None
    ) -> list[FailedItem]:
        ids, places = self.columns.given_ids(rows), self.columns.places(rows)
        return [*map(FailedItem, ids, places, errors, delays or repeat(None))]

    # -- on the driver

    @without_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """End the batch, exactly once even if parts of it were repeated."""
        done = [message for message in messages if isinstance(message, Written)]
        if not done:
            return  # no job was read, so the reader acknowledges
        attempts = [(one.attempt, one.staged) for one in done if one.staged]
        carried = [prepared for one in done for prepared in one.carried]
        refused = [one.refused for one in done if one.refused is not None]
        with self.place.app() as app:
            batch = None if self.stream is None else SinkBatch.read_by(app.store, self.stream, done[0].run)
            if refused:
                if batch is not None:
                    batch.failed(f"InvalidInput: {refused[0]}")
                raise InvalidInput(f"{refused[0]}; this batch is not finished: correct the query and start it again")
            if batch is None:  # rows from other streams, or from the state of the query
                if self.mode != "append" and any(one.rows for one in done):
                    raise self._taken()
                if attempts or carried or self.stream is None:
                    publish(app.store, Publication(done[0].write, tuple(attempts)), carried)
            elif self.mode == "append":
                settled = sum(one.settled for one in done)
                stateless = has_state(self.checkpoint) is False
                ends = self._ends(app, batch, [failed for one in done for failed in one.failed])
                batch.publish(attempts, settled, write=done[0].write, stateless=stateless, carried=carried, ends=ends)
            else:
                batch.drop_rest()

    def _ends(self, app: Stanchion, batch: SinkBatch, failed: Sequence[FailedItem]) -> list[Ending]:
        """Return the outcomes of the jobs with failed items, which end with the batch."""
        of_jobs: dict[str, list[FailedItem]] = {}
        for one in failed:
            of_jobs.setdefault(one.job, []).append(one)
        station = StreamStation(context_of(app), batch.name)
        found = app.store.fetch(list(of_jobs)) if of_jobs and not batch.acknowledged else {}
        mine = {job: row for job, row in found.items() if row.lease == batch.state.lease(job)}
        return [station.failed(row, of_jobs[job]) for job, row in mine.items()]

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Record that the query failed on its batch; staged jobs are deleted at its end, or after a day."""
        if self.stream is None:
            return
        with self.place.app() as app, suppress(StanchionError):
            SinkBatch.record_failure(app.store, self.stream, f":{batchId}", QUERY_FAILED)
