"""The query of a Spark station: a Structured Streaming query over the stream of the station's queue.

    stream ──► foreachBatch: all items of a micro-batch as a DataFrame ──► store

Spark names its jobs after the query: the pipeline and the station.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion.errors import StanchionError
from stanchion.pipelines.station import Station
from stanchion.spark.datasource.endings import user_error
from stanchion.spark.datasource.options import reachable_url
from stanchion.spark.stations.batches.frames import work_on_frame
from stanchion.spark.stations.items import ReservedItems
from stanchion.spark.stations.stateful import windows_of, writer_of
from stanchion.spark.stations.traced import batch_span
from stanchion.streams import SinkBatch
from stanchion.streams.sizing import ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Queries:
    """Starts the queries of Spark stations. `partitions`: tasks per micro-batch; `folder`: for checkpoints.

    `stations`: the names of those that run here.
    """

    spark: SparkSession
    partitions: int
    folder: Path
    stations: frozenset[str]
    raised: dict[str, Exception] = field(default_factory=dict)
    """The errors that ended the queries of stations, if raised in this process."""

    def start(self, station: Station) -> StreamingQuery:
        """Start the query of a station. Its checkpoint is new, as the stream knows which batch is unfinished.

        One with a watermark keeps its own.
        """
        if (windows := windows_of(station)) is not None:
            writer = writer_of(self.spark, station, windows, self.partitions, _page(self.spark))
            found: StreamingQuery = writer.queryName(station.name).start()
            return found
        writer = self._stream(station).writeStream.foreachBatch(
            _Batches(station, self.partitions, self.raised, self.stations)
        )
        checkpoint = tempfile.mkdtemp(prefix=f"{station.station}-", dir=self.folder)
        return writer.queryName(station.name).option("checkpointLocation", checkpoint).start()

    def _stream(self, station: Station) -> DataFrame:
        assert station.frame is not None  # noqa: S101 - only such stations have queries
        stream = (
            self.spark.readStream.format("stanchion")
            .option("url", reachable_url(station.context.url))
            .option("queue", station.queue)
            .option("partitions", self.partitions)
            .option("maxRecordsPerBatch", station.frame.max_per_batch)
        )
        if station.frame.grow_to is not None:
            stream = stream.option("growTo", station.frame.grow_to)
        if (ui := _page(self.spark)) is not None:
            stream = stream.option("ui", ui)
        return stream.schema("id string").load()

    def failed(self, station: Station, error: Exception | None) -> str:
        """Record that a query ended with an error; return its text."""
        raised = self.raised.pop(station.station, None)
        if raised is not None:  # recorded where it was raised
            return _text(raised)
        if error is not None:
            record_failure(station, str(error))
        return str(error or "it was stopped from outside")


@dataclass(frozen=True)
class _Batches:
    """Runs each micro-batch of a query through its station. With Spark Connect, a copy of it does that elsewhere.

    `behind`: the stations that items may pass to in the same batch.
    """

    station: Station
    partitions: int
    raised: dict[str, Exception]
    behind: frozenset[str] = frozenset()

    def __call__(self, frame: DataFrame, _number: int) -> None:
        try:
            self._take(frame)
        except Exception as error:  # Spark reports it only as long text
            self.raised[self.station.station] = error
            record_failure(self.station, _text(error))
            raise

    def _take(self, frame: DataFrame) -> None:
        station = self.station
        _divide(frame)
        # The reserved items are read only now. If a later driver has a new batch, this one joins in.
        found = SinkBatch.pending(station.context.store, station.queue)
        if found is None:  # it was finished before
            return
        batch, jobs = found
        if not jobs:
            batch.drop_rest()
            return
        items = sum(job.items for job in jobs)
        with batch_span(station.context, station, batch.token, items) as trace:
            parts, chunks = ranges(jobs, self.partitions), items > len(jobs)
            # After a failure the station runs alone, so that the failure is found where it belongs.
            behind = self.behind if batch.state.replays == 0 else frozenset[str]()
            work_on_frame(ReservedItems(station, batch.token, parts, trace, chunks), frame, batch, behind)


def record_failure(station: Station, error: str) -> None:
    """Record that the reserved batch failed, as a batch that keeps failing is halved."""
    with suppress(StanchionError):  # the store may be what failed
        if found := SinkBatch.pending(station.context.store, station.queue):
            found[0].failed(user_error(error))


def _divide(frame: DataFrame) -> None:
    """Make the stream divide the batch, and halve one that keeps failing."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        frame.isEmpty()
    else:
        frame.rdd.getNumPartitions()


def _page(spark: Any) -> str | None:
    """Return the address of Spark's web UI; None if it has none, or hides it from its clients."""
    from pyspark.sql.utils import is_remote

    return None if is_remote() else spark.sparkContext.uiWebUrl


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
