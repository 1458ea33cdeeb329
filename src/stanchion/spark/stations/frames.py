"""A Spark station: its function turns a micro-batch into DataFrames.

    items ──parsed by the schema──► function ──► rows with a job_id: these items move on, each in one step
      ├─ items that don't fit are dead             └► other rows: new items, staged, published once per batch
      └─ items that don't meet an expectation end as it says

All rows are computed before any is stored. (1) Rows without a `job_id` are published, once even if repeated. (2) The
items move on. If there are only new items, and the store supports it, the same step publishes them and commits the
items of the batch.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stanchion.core.values.framing import as_text
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import batches, chunks
from stanchion.pipelines.options import Frame
from stanchion.pipelines.send import Send
from stanchion.pipelines.station import Station
from stanchion.spark.datasource.writing.new_jobs import JobMaker
from stanchion.spark.stations.items import TAKEN, ReservedItems, taken
from stanchion.spark.unmet import UnmetItems
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Bury, Commit, Continue, Move, Outcome
from stanchion.streams import SinkBatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ID = "job_id"
_MISFIT = "_misfit"
_SHOWN = 200

_READ = "id string, payload string, unmet boolean"
_STAGED = "attempt string, staged bigint"


def work_on_frame(reserved: ReservedItems, like: DataFrame, batch: SinkBatch) -> None:
    """Run the items of a batch through a station that works on DataFrames."""
    station, frame = reserved.station, reserved.station.frame
    assert frame is not None  # noqa: S101 - a station on DataFrames has one

    def read(rows: list[JobRow]) -> Iterator[pa.RecordBatch]:
        codec, expected = station.context.codec, station.expectations
        payloads = [codec.opened(as_text(row.payload)) for row in rows]
        unmet = [expected is not None and expected.unmet(codec.decode(row.payload)) is not None for row in rows]
        columns = [pa.array([row.id for row in rows]), pa.array(payloads), pa.array(unmet)]
        yield pa.RecordBatch.from_arrays(columns, ["id", "payload", "unmet"])

    with _kept(reserved.frame(like, read, _READ)) as found:
        items, refused = _parsed(found, frame.schema)
        ended = _end(reserved, frame, refused)
        _Outputs(reserved, frame.function(items)).store(batch, ended)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache rows within the block: read again, they would lack the items that went on."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


# -- items as rows


def _parsed(read: DataFrame, schema: str) -> tuple[DataFrame, DataFrame]:
    """Return the items as rows of the schema, with their ids, and the items that fail it or an expectation."""
    from pyspark.sql import functions as f

    item = f.from_json("payload", f"{schema}, {_MISFIT} string", {"columnNameOfCorruptRecord": _MISFIT})
    parsed = read.withColumn("item", item)
    fits = f.col("item").isNotNull() & f.col(f"item.{_MISFIT}").isNull() & ~f.col("unmet")
    items = parsed.where(fits).select("item.*", f.col("id").alias(ID)).drop(_MISFIT)
    return items, parsed.where(~fits).select("id", "payload")


def _end(reserved: ReservedItems, frame: Frame, refused: DataFrame) -> int:
    """End the items that do not fit the schema, or an expectation; return their number."""
    station = reserved.station
    told = f"the item does not fit the schema of station {station.station!r} ({frame.schema})"

    def end(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failed = UnmetItems(station.queue)

        def outcome(row: JobRow, payload: str) -> Outcome:
            expected = station.expectations
            unmet = None if expected is None else expected.unmet(station.context.codec.decode(row.payload))
            if unmet is None:
                return Bury(row.lease, told if station.context.codec.has_keys else f"{told}: {payload[:_SHOWN]}")
            ending = unmet.ending(station.context.store, row)
            failed.add(unmet.expectation.condition.text, row.id, dead=isinstance(ending, Bury))
            return ending

        for some in found:
            payloads = dict(zip(some.column("id").to_pylist(), some.column("payload").to_pylist(), strict=True))
            rows = reserved.rows(list(payloads))
            yield taken(some.num_rows, reserved.settle([outcome(row, payloads[row.id]) for row in rows], rows))
        failed.merge(station.context.store)
        station.context.close()

    return sum(row["settled"] for row in refused.mapInArrow(end, TAKEN).collect())


# -- the outputs of the function


class _Outputs:
    """The DataFrames that the function of a station returned, by target station; "" for an end."""

    def __init__(self, reserved: ReservedItems, made: DataFrame | Mapping[str, DataFrame]) -> None:
        self.reserved, self.station = reserved, reserved.station
        by_target = frames_by_target(self.station, made, self.station.to)
        self.moved = {to: frame for to, frame in by_target.items() if ID in frame.columns}
        self.new = {to: frame for to, frame in by_target.items() if ID not in frame.columns}
        if "" in self.new:
            raise InvalidInput(
                f"station {self.station.station!r} is an end, so each row it returns is the result of an item: keep "
                f"the column {ID}, or name a station for new items in to="
            )

    def store(self, batch: SinkBatch, ended: int) -> None:
        """Store all outputs, idempotently for the batch. `ended`: the number of its items that ended before."""
        attempts = [attempt for to, frame in self.new.items() for attempt in self._staged(batch.write, to, frame)]
        if self.new and not self.moved and batch.store.capabilities.atomic_batches:
            batch.publish(attempts, ended, stateless=True)
            return
        with self._moves() as moves:
            if self.new:
                batch = batch.publish_ahead(attempts)
            if moves is not None:
                self._move(moves)
        batch.drop_rest()

    def _staged(self, write: str, to: str, frame: DataFrame) -> list[tuple[str, int]]:
        station, maker = self.station, JobMaker(self.station.topology.queue(to))
        headers = self.reserved.lineage(write)

        def stage(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            attempt, staged = secrets.token_hex(8), 0
            for some in found:
                jobs = [job._replace(headers=headers) for job in maker.jobs(station.context, some)]
                for chunk in (chunk for part in batches(jobs) for chunk in chunks(part)):
                    station.context.store.stage(write, attempt, chunk)
                    staged += len(chunk)
            yield pa.RecordBatch.from_arrays([pa.array([attempt]), pa.array([staged])], ["attempt", "staged"])
            station.context.close()

        told = frame.select(as_json(frame).alias("payload")).mapInArrow(stage, _STAGED).collect()
        return [(row["attempt"], row["staged"]) for row in told if row["staged"]]

    @contextmanager
    def _moves(self) -> Iterator[DataFrame | None]:
        """Yield the rows with ids of items, all computed and checked; None if there are none."""
        from pyspark.sql import functions as f

        if not self.moved:
            yield None
            return
        parts = [
            frame.select(f.col(ID), f.lit(to).alias("to"), as_json(frame).alias("payload"))
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

    def _move(self, moves: DataFrame) -> None:
        """Move items on, or finish them, by the rows with their ids."""
        reserved = self.reserved

        def move(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for some in found:
                given = {row[ID]: row for row in some.to_pylist()}
                rows = reserved.rows(list(given))
                yield taken(
                    some.num_rows, reserved.settle([_outcome(reserved, row, given[row.id]) for row in rows], rows)
                )
            reserved.station.context.close()

        moves.mapInArrow(move, TAKEN).collect()


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


def as_json(frame: DataFrame) -> Column:
    """Return the columns of a row as JSON, without the id; with nulls, as on a worker."""
    from pyspark.sql import functions as f

    names = [f.col(f"`{name}`") for name in frame.columns if name != ID]
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
