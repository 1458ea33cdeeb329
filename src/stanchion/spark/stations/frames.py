"""A Spark station: its function turns a micro-batch into DataFrames.

    items ──parsed by the schema──► function ──► rows with a job_id: these items move on, each in one step
      ├─ items that don't fit are dead             └► other rows: new items, staged, published once per batch
      └─ items that don't meet an expectation end as it says

All rows are computed before any is stored. (1) Rows without a `job_id` are published, once even if repeated. (2) The
items move on, those of a chunk together. If there are only new items, and the store supports it, the same step
publishes them and commits the items of the batch.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stanchion.errors import InvalidInput
from stanchion.pipelines.chunks.tables import ERROR
from stanchion.pipelines.options import Frame
from stanchion.pipelines.send import Send
from stanchion.pipelines.station import Station
from stanchion.spark.datasource.writing.chunk_jobs import ChunkMaker
from stanchion.spark.datasource.writing.new_jobs import JobMaker
from stanchion.spark.datasource.writing.packing import packed
from stanchion.spark.datasource.writing.task_stage import TaskStage
from stanchion.spark.stations.ends import ItemEnds, by_job
from stanchion.spark.stations.item_rows import ID, ItemReader, in_chunk, job_and_place
from stanchion.spark.stations.items import TAKEN, ReservedItems, taken
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Bury, Commit, Continue, Ending, Move, Outcome
from stanchion.streams import SinkBatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_STAGED = "attempt string, staged bigint"


def work_on_frame(reserved: ReservedItems, like: DataFrame, batch: SinkBatch) -> None:
    """Run the items of a batch through a station that works on DataFrames."""
    frame = reserved.station.frame
    assert frame is not None  # noqa: S101 - a station on DataFrames has one
    reader = ItemReader.of(reserved.station, frame.schema)

    def read(rows: list[JobRow]) -> Iterator[pa.RecordBatch]:
        return reader.rows(rows)

    with _kept(reserved.frame(like, read, reader.ddl)) as found:
        items, refused = reader.parsed(found, frame.schema)
        ended = _end(reserved, frame, refused.where(~in_chunk("id")) if reserved.chunks else refused)
        of_chunks = refused.where(in_chunk("id")) if reserved.chunks else None
        _Outputs(reserved, frame, items.columns, frame.function(items), of_chunks).store(batch, ended)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache rows within the block: read again, they would lack the items that went on."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _end(reserved: ReservedItems, frame: Frame, refused: DataFrame) -> int:
    """End the single items that do not fit the schema, or an expectation; return their number."""

    def end(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends, codec = ItemEnds(reserved.station, frame.schema), reserved.station.context.codec
        for some in found:
            payloads = dict(zip(some.column("id").to_pylist(), some.column("payload").to_pylist(), strict=True))
            rows = reserved.rows(list(payloads))
            outcomes = [ends.refused(row, codec.decode(row.payload), payloads[row.id]) for row in rows]
            yield taken(some.num_rows, reserved.settle(outcomes, rows))
        ends.close()

    return sum(row["settled"] for row in refused.mapInArrow(end, TAKEN).collect())


# -- the outputs of the function


class _Outputs:
    """The DataFrames that the function of a station returned, by target station; "" for an end.

    `fields`: the columns that the function got. `refused`: the items of chunks that it did not get; None:
    there are no chunks.
    """

    def __init__(
        self,
        reserved: ReservedItems,
        frame: Frame,
        fields: Sequence[str],
        made: DataFrame | Mapping[str, DataFrame],
        refused: DataFrame | None,
    ) -> None:
        self.reserved, self.station, self.frame, self.refused = reserved, reserved.station, frame, refused
        self.fields = fields
        by_target = frames_by_target(self.station, made, self.station.targets)
        self.moved = {to: frame for to, frame in by_target.items() if ID in frame.columns}
        self.new = {to: frame for to, frame in by_target.items() if ID not in frame.columns}
        if "" in self.new:
            raise InvalidInput(
                f"station {self.station.station!r} is an end, so each row it returns is the result of an item: keep "
                f"the column {ID}, or name a station for new items in to="
            )
        for to in self.station.tables.keys() & self.new.keys():
            raise InvalidInput(
                f"a row that station {self.station.station!r} writes to table {to!r} ends an item: keep the column "
                f"{ID}, or send new items to a station that writes them"
            )

    def store(self, batch: SinkBatch, ended: int) -> None:
        """Store all outputs, idempotently for the batch. `ended`: the number of its jobs that ended before."""
        attempts = [attempt for to, frame in self.new.items() for attempt in self._staged(batch.write, to, frame)]
        if self.new and not self.moved and batch.store.capabilities.atomic_batches:
            batch.publish(attempts, ended, stateless=True, ends=self._refused_ends())
            return
        with self._moves() as moves:
            if self.new:
                batch = batch.publish_ahead(attempts)
            if moves is not None:
                self._move(moves.where(~in_chunk(ID)) if self.reserved.chunks else moves)
            if self.reserved.chunks:
                self._end_chunks(moves)
        batch.drop_rest()

    def _staged(self, write: str, to: str, frame: DataFrame) -> list[tuple[str, int]]:
        """Stage rows as new items; return the attempts of tasks, with the number of jobs that each has staged."""
        context, maker = self.station.context, self._maker(self.station.topology.queue(to))
        headers = self.reserved.lineage(write)

        def stage(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            attempt = secrets.token_hex(8)
            staged = TaskStage(context.store, write, attempt)
            packs = isinstance(maker, ChunkMaker)
            for some in packed(found, maker.by, maker.rows) if isinstance(maker, ChunkMaker) else found:
                jobs = [job._replace(headers=headers) for job in maker.jobs(context, some)]
                (staged.add_chunks if packs else staged.add)(jobs)
            staged.finish()
            yield pa.RecordBatch.from_arrays([pa.array([attempt]), pa.array([staged.staged])], ["attempt", "staged"])
            context.close()

        told = frame.select(as_json(frame).alias("payload")).mapInArrow(stage, _STAGED).collect()
        return [(row["attempt"], row["staged"]) for row in told if row["staged"]]

    def _maker(self, queue: str) -> JobMaker | ChunkMaker:
        rows = self.frame.rows_per_job
        return JobMaker(queue) if rows is None else ChunkMaker(JobMaker(queue), rows, (), wrapped=True)

    @contextmanager
    def _moves(self) -> Iterator[DataFrame | None]:
        """Yield the rows with ids of items, all computed and checked; None if there are none."""
        from pyspark.sql import functions as f

        if not self.moved:
            yield None
            return
        parts = [
            frame.select(
                f.col(ID),
                f.lit(to).alias("to"),
                as_json(frame, but=(ERROR,) if self._has_errors(frame) else ()).alias("payload"),
                f.col(ERROR) if self._has_errors(frame) else f.lit(None).cast("string").alias(ERROR),
            )
            for to, frame in self.moved.items()
        ]
        with _kept(reduce(lambda one, other: one.unionByName(other), parts)) as rows:
            twice = rows.groupBy(ID).count().where("count > 1 or job_id is null").limit(1).collect()
            if twice:
                raise InvalidInput(
                    f"station {self.station.station!r} returned {twice[0]['count']} rows with the {ID} {twice[0][ID]}; "
                    f"an item moves on once: return one row for each, or drop the column {ID} to make new items of them"
                )
            yield rows

    def _has_errors(self, frame: DataFrame) -> bool:
        """Return whether rows say in a column why their items have failed, and not in a field of the station's own."""
        kinds = dict(frame.dtypes)
        if ERROR not in kinds or ERROR in self.fields:
            return False
        if kinds[ERROR] not in ("string", "void"):
            raise InvalidInput(
                f"the column {ERROR} of station {self.station.station!r} is of type {kinds[ERROR]}; it is a text for "
                f"an item that has failed, and null for others: cast it, or rename it"
            )
        return True

    def _move(self, moves: DataFrame) -> None:
        """Move single items on, or finish them, by the rows with their ids."""
        reserved, schema = self.reserved, self.frame.schema

        def move(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            ends = ItemEnds(reserved.station, schema)
            for some in found:
                given = {row[ID]: row for row in some.to_pylist()}
                rows = reserved.rows(list(given))
                outcomes = [
                    _outcome(reserved, row, given[row.id])
                    if given[row.id][ERROR] is None
                    else ends.failed(row, given[row.id][ERROR])
                    for row in rows
                ]
                yield taken(some.num_rows, reserved.settle(outcomes, rows))
            ends.close()

        moves.mapInArrow(move, TAKEN).collect()

    # -- chunks

    def _end_chunks(self, moves: DataFrame | None) -> None:
        """End each chunk in one step by the rows of its items. `moves`: None if all items became new ones."""
        reserved, schema = self.reserved, self.frame.schema
        rows = self._rows_of_chunks(moves)

        def end(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            ends = ItemEnds(reserved.station, schema)
            for job, some in by_job(found):
                jobs = reserved.rows([job])
                yield taken(some.num_rows, reserved.settle([ends.outcome(row, some) for row in jobs], jobs))
            ends.close()

        together = rows.repartition(max(1, len(reserved.parts)), "job").sortWithinPartitions("job", "place")
        together.mapInArrow(end, TAKEN).collect()

    def _rows_of_chunks(self, moves: DataFrame | None) -> DataFrame:
        """Return the rows of items of chunks, and rows without a target for those that the function did not get."""
        from pyspark.sql import functions as f

        assert self.refused is not None  # noqa: S101 - of a batch with chunks
        nothing = f.lit(None).cast("string")
        refused = self.refused.select(*job_and_place("id"), *(nothing.alias(name) for name in ("to", "payload", ERROR)))
        if moves is None:
            return refused
        return moves.where(in_chunk(ID)).select(*job_and_place(ID), "to", "payload", ERROR).unionByName(refused)

    def _refused_ends(self) -> list[Ending]:
        """Return the outcomes of chunks of which the function did not get all items; the others became new items."""
        if self.refused is None:
            return []
        places: dict[str, list[int]] = {}
        for job, place in self.refused.select(*job_and_place("id")).collect():
            places.setdefault(job, []).append(place)
        ends = ItemEnds(self.station, self.frame.schema)
        rows = self.reserved.rows(list(places))
        found = [ends.outcome_without(row, sorted(places[row.id])) for row in rows]
        ends.close()
        return found


def frames_by_target(
    station: Station, made: DataFrame | Mapping[str, DataFrame], targets: Sequence[str]
) -> dict[str, DataFrame]:
    """Return the results of a station's function by target; "" for an end. Raises InvalidInput."""
    if isinstance(made, Mapping):
        unknown = [to for to in made if to not in targets]
        if unknown:
            raise InvalidInput(
                f"station {station.station!r} returned rows for {unknown[0]!r}, which is not in its to= "
                f"({', '.join(targets) or 'empty'}); add it there"
            )
        return dict(made)
    if len(targets) > 1:
        raise InvalidInput(
            f"station {station.station!r} has several targets; return a dict such as "
            f"{{{targets[0]!r}: frame}}, with a DataFrame for each target that gets items"
        )
    return {targets[0] if targets else "": made}


def as_json(frame: DataFrame, but: Sequence[str] = ()) -> Column:
    """Return the columns of a row as JSON, without the id and these columns; with nulls, as on a worker."""
    from pyspark.sql import functions as f

    names = [f.col(f"`{name}`") for name in frame.columns if name not in (ID, *but)]
    return f.to_json(f.struct(*names), {"ignoreNullFields": "false"})


def _outcome(reserved: ReservedItems, row: JobRow, given: dict[str, Any]) -> Outcome:
    """Return the outcome of an item; it is buried if its new value can't be stored.

    The stored payload is Spark's own text, as a value parsed from it may have fewer digits.
    """
    codec = reserved.station.context.codec
    value = codec.decode(given["payload"])
    try:
        outcome = reserved.station.outcome(row, None, Send(given["to"], value) if given["to"] else value)
        text = codec.encode_json(given["payload"])
    except InvalidInput as error:
        return Bury(row.lease, f"InvalidInput: {error}")
    if isinstance(outcome, Move):
        return outcome._replace(payload=text)
    if isinstance(outcome, Continue):
        return outcome._replace(job=outcome.job._replace(payload=text))
    return outcome._replace(result=text) if isinstance(outcome, Commit) and not given["to"] else outcome
