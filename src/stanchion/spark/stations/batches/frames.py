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
from collections.abc import Iterator, Set
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pyarrow as pa

from stanchion.pipelines.chunks.tables import ERROR
from stanchion.spark.datasource.writing.chunk_jobs import ChunkMaker
from stanchion.spark.datasource.writing.new_jobs import JobMaker
from stanchion.spark.datasource.writing.packing import packed
from stanchion.spark.datasource.writing.task_stage import TaskStage
from stanchion.spark.stations.batches.chain import Chain, chained, kept, misfit_rows
from stanchion.spark.stations.batches.ends import ItemEnds, by_job
from stanchion.spark.stations.batches.item_rows import ID, ItemReader, in_chunk, job_and_place
from stanchion.spark.stations.batches.made import Made, as_json
from stanchion.spark.stations.batches.passing import PassedItems, grouped
from stanchion.spark.stations.items import TAKEN, ReservedItems, taken
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Ending
from stanchion.streams import SinkBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STAGED = "attempt string, staged bigint"


def work_on_frame(reserved: ReservedItems, like: DataFrame, batch: SinkBatch, behind: Set[str]) -> None:
    """Run the items of a batch through a station that works on DataFrames, and through those `behind` it."""
    frame = reserved.station.frame
    assert frame is not None  # noqa: S101 - a station on DataFrames has one
    reader = ItemReader.of(reserved.station, frame.schema)

    def read(rows: list[JobRow]) -> Iterator[pa.RecordBatch]:
        return reader.rows(rows)

    with kept(reserved.frame(like, read, reader.ddl)) as found:
        items, refused = reader.parsed(found, frame.schema)
        ended = _end(reserved, refused.where(~in_chunk("id")) if reserved.chunks else refused)
        of_chunks = refused.where(in_chunk("id")) if reserved.chunks else None
        _Outputs(reserved, Made.of(reserved.station, items), of_chunks, behind).store(batch, ended)


def _end(reserved: ReservedItems, refused: DataFrame) -> int:
    """End the single items that do not fit the schema, or an expectation; return their number."""

    def end(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends, codec = ItemEnds(reserved.station), reserved.station.context.codec
        for some in found:
            payloads = dict(zip(some.column("id").to_pylist(), some.column("payload").to_pylist(), strict=True))
            rows = reserved.rows(list(payloads))
            outcomes = [ends.refused(row, codec.decode(row.payload), payloads[row.id]) for row in rows]
            yield taken(some.num_rows, reserved.settle(outcomes, rows))
        ends.close()

    return sum(row["settled"] for row in refused.mapInArrow(end, TAKEN).collect())


# -- the outputs of the function


class _Outputs:
    """What the function of a station returned. `refused`: the items of chunks that it did not get; None: no chunks.

    `behind`: the stations that items may pass to in this batch.
    """

    def __init__(self, reserved: ReservedItems, made: Made, refused: DataFrame | None, behind: Set[str]) -> None:
        self.reserved, self.station, self.made, self.refused = reserved, reserved.station, made, refused
        self.behind = behind

    def store(self, batch: SinkBatch, ended: int) -> None:
        """Store all outputs, idempotently for the batch. `ended`: the number of its jobs that ended before."""
        new, moved = self.made.new, self.made.moved
        attempts = [attempt for to, frame in new.items() for attempt in self._staged(batch.write, to, frame)]
        if new and not moved and batch.store.capabilities.atomic_batches:
            batch.publish(attempts, ended, stateless=True, ends=self._refused_ends())
            return
        with chained(self.made, self.behind) if moved else nullcontext() as chain:
            if new:
                batch = batch.publish_ahead(attempts)
            if chain is not None:
                self._move(chain)
            if self.reserved.chunks:
                self._end_chunks(chain)
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
        assert self.station.frame is not None  # noqa: S101 - a Spark station has one
        rows = self.station.frame.rows_per_job
        return JobMaker(queue) if rows is None else ChunkMaker(JobMaker(queue), rows, (), wrapped=True)

    def _move(self, chain: Chain) -> None:
        """Move single items on, or finish them, by the rows with their ids."""
        reserved, stations = self.reserved, chain.stations
        rows = chain.rows.where(~in_chunk(ID)) if reserved.chunks else chain.rows
        if len(stations) > 1:  # the rows of an item follow each other
            rows = rows.repartition(self._tasks, ID).sortWithinPartitions(ID, "level")

        def move(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            ends = PassedItems(stations)
            for given in grouped(found):
                jobs = reserved.rows(list(given))
                yield taken(len(given), reserved.settle([ends.single(row, given[row.id]) for row in jobs], jobs))
            ends.close()

        rows.mapInArrow(move, TAKEN).collect()

    @property
    def _tasks(self) -> int:
        return max(1, len(self.reserved.parts))

    # -- chunks

    def _end_chunks(self, chain: Chain | None) -> None:
        """End each chunk in one step by the rows of its items. `chain`: None if all items became new ones."""
        reserved = self.reserved
        stations = (self.station,) if chain is None else chain.stations
        rows = self._rows_of_chunks(chain)

        def end(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            ends = PassedItems(stations)
            for job, some in by_job(found):
                jobs = reserved.rows([job])
                yield taken(some.num_rows, reserved.settle([ends.chunk(row, some) for row in jobs], jobs))
            ends.close()

        together = rows.repartition(self._tasks, "job").sortWithinPartitions("job", "place")
        together.mapInArrow(end, TAKEN).collect()

    def _rows_of_chunks(self, chain: Chain | None) -> DataFrame:
        """Return the rows of items of chunks, and rows without a target for those that the function did not get."""
        assert self.refused is not None  # noqa: S101 - of a batch with chunks
        rows = misfit_rows(self.refused, 0)
        if chain is not None:
            rows = rows.unionByName(chain.rows.where(in_chunk(ID)))
        return rows.select(*job_and_place(ID), "level", "to", "payload", ERROR)

    def _refused_ends(self) -> list[Ending]:
        """Return the outcomes of chunks of which the function did not get all items; the others became new items."""
        if self.refused is None:
            return []
        places: dict[str, list[int]] = {}
        for job, place in self.refused.select(*job_and_place("id")).collect():
            places.setdefault(job, []).append(place)
        ends = ItemEnds(self.station)
        rows = self.reserved.rows(list(places))
        found = [ends.outcome_without(row, sorted(places[row.id])) for row in rows]
        ends.close()
        return found
