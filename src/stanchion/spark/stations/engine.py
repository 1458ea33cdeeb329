"""A pipeline on Spark: each station is a Structured Streaming query over the stream of its queue.

    stream of the station's queue ──micro-batch──► items one by one (a plain station), or all as a DataFrame ──► store

The store has the reserved items and the position of each stream. A failed query is restarted, and another process can
replace a dead one. So checkpoints do not matter here, and each run starts with a new one.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import StreamingQueryException

from stanchion.errors import StanchionError
from stanchion.pipelines import Pipeline
from stanchion.pipelines.station import Station
from stanchion.spark.datasource.endings import user_error
from stanchion.spark.datasource.options import reachable_url
from stanchion.spark.session import session
from stanchion.spark.stations.frames import work_on_frame
from stanchion.spark.stations.items import ReservedItems, work_on_items
from stanchion.spark.stations.traced import batch_span
from stanchion.streams import SinkBatch, release, streams
from stanchion.streams.state import ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("stanchion.spark")

PER_BATCH = 2000
"""Items of a plain station in one micro-batch."""

_TICK_SECONDS = 0.2
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 1.0, 30.0
_FAILURES_IN_A_ROW = 60
"""Tries of a station with `available_now`: enough to halve a batch until the item that breaks it is alone."""
_SHOWN = 500
_LASTING = ("StreamTaken", "StreamStopped", "ForeignCheckpoint", "InvalidInput", "MissingExtra")
"""Errors that a retry does not help, by name, as Spark reports only text."""


def run(
    pipeline: Pipeline,
    stations: Collection[str] = (),
    *,
    spark: SparkSession | None = None,
    available_now: bool = False,
    partitions: int | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run the stations of a pipeline on Spark until `stop` is set; with `available_now`, until no item is due.

    `stations`: the stations to run, by default all; workers may run the others. `spark`: the session, by default from
    `stanchion.spark.session`. `partitions`: tasks per micro-batch, by default the number of cores. Raises
    StanchionError if another process starts to run the same stations on Spark, and with `available_now` if a station
    keeps failing.
    """
    pipeline.prepare()
    chosen = pipeline.chosen(stations)
    spark = spark or session()
    partitions = partitions or spark.sparkContext.defaultParallelism
    engine = _Engine(pipeline, chosen, spark, partitions, stop or threading.Event())
    engine.run_available() if available_now else engine.run_on()


@dataclass
class _Engine:
    pipeline: Pipeline
    stations: Sequence[Station]
    spark: SparkSession
    partitions: int
    stop: threading.Event
    pauses: dict[str, float] = field(default_factory=dict)
    raised: dict[str, Exception] = field(default_factory=dict)
    """The errors that ended the queries of stations, if raised in this process."""

    # -- until it is stopped

    def run_on(self) -> None:
        """Keep a query running for each station."""
        with _folder() as folder:
            running: dict[str, StreamingQuery] = {}
            begin_at: dict[str, float] = {}
            try:
                while not self.stop.wait(_TICK_SECONDS):
                    for station in self.stations:
                        self._keep(station, folder, running, begin_at)
            finally:
                self._end(running)

    def _keep(
        self, station: Station, folder: Path, running: dict[str, StreamingQuery], begin_at: dict[str, float]
    ) -> None:
        query = running.get(station.station)
        if query is not None and query.isActive:
            return
        if query is not None:
            error = query.exception()
            failure = self._failure(station, error)
            if failure.lasting:
                raise StanchionError(failure.message) from error
            pause = self.pauses[station.station] = min(
                2 * self.pauses.get(station.station, _PAUSE_SECONDS_MIN / 2), _PAUSE_SECONDS_MAX
            )
            log.warning("%s; restarting it in %.0f s", failure.message, pause)
            begin_at[station.station] = time.monotonic() + pause
            del running[station.station]
        if time.monotonic() >= begin_at.get(station.station, 0.0):
            running[station.station] = self._start(station, folder)

    def _end(self, running: dict[str, StreamingQuery]) -> None:
        """Stop all queries, and give back their reserved items."""
        for query in running.values():
            query.stop()
        for station in self.stations:
            self._release(station)

    # -- until no item is due

    def run_available(self) -> None:
        """Run one station after the other until none has due items."""
        failures = 0
        with _folder() as folder:
            while not self.stop.is_set() and (due := self._due()):
                for station in due:
                    error = self._run_once(station, folder)
                    failures = 0 if error is None else failures + 1
                    if error is None:
                        continue
                    failure = self._failure(station, error)
                    if failure.lasting or failures > _FAILURES_IN_A_ROW:
                        self._release(station)
                        raise StanchionError(failure.message) from error
                    log.warning("%s; restarting it", failure.message)

    def _due(self) -> list[Station]:
        """Return the stations with due items, or with items that a query has left reserved."""
        store = self.pipeline.context.store
        queues = [station.queue for station in self.stations]
        paused = {settings.name for settings in store.queues(queues) if settings.paused}
        reserved = {stream.queue for stream in streams(store) if stream.reserved_jobs}
        stats = store.stats(queues, ["states"])
        return [
            station
            for station in self.stations
            if station.queue in reserved or (station.queue not in paused and stats[station.queue].states.ready)
        ]

    def _run_once(self, station: Station, folder: Path) -> Exception | None:
        """Run the query of a station until it has processed all ready items; return its error, if it failed."""
        query = self._start(station, folder, availableNow=True)
        try:
            while not query.awaitTermination(1) and not self.stop.is_set():
                pass
        except StreamingQueryException as error:
            return error
        if self.stop.is_set():
            query.stop()
            self._release(station)
        return query.exception()

    # -- one query

    def _start(self, station: Station, folder: Path, **trigger: Any) -> StreamingQuery:
        stream = (
            self.spark.readStream.format("stanchion")
            .option("url", reachable_url(self.pipeline.context.url))
            .option("queue", station.queue)
            .option("partitions", self.partitions)
            .option("maxRecordsPerBatch", station.frame.max_per_batch if station.frame else PER_BATCH)
        )
        if (ui := self.spark.sparkContext.uiWebUrl) is not None:
            stream = stream.option("ui", ui)
        source = stream.schema("id string").load()
        writer = source.writeStream.queryName(station.name).foreachBatch(self._processor(station))
        if trigger:
            writer = writer.trigger(**trigger)
        # Each start gets a new checkpoint: the stream knows which batch is unfinished.
        return writer.option("checkpointLocation", tempfile.mkdtemp(prefix=f"{station.station}-", dir=folder)).start()

    def _processor(self, station: Station) -> Callable[[DataFrame, int], None]:
        """Return the function that runs a micro-batch through a station."""

        def take(frame: DataFrame, _number: int) -> None:
            try:
                self._take(station, frame)
            except Exception as error:  # Spark reports it only as long text
                self.raised[station.station] = error
                self._record_failure(station, error)
                raise

        return take

    def _take(self, station: Station, frame: DataFrame) -> None:
        frame.rdd.getNumPartitions()  # makes the reader divide the batch, and halve one that keeps failing
        # The reserved items are read only now. If a later driver has a new batch, this one joins in.
        found = SinkBatch.pending(self.pipeline.context.store, station.queue)
        if found is None:  # it was finished before
            return
        batch, ids = found
        if not ids:
            batch.drop_rest()
            return
        with batch_span(self.pipeline.context, station, batch.token, len(ids)) as trace:
            items = ReservedItems(station, batch.token, ranges(ids, self.partitions), trace)
            if station.frame is None:
                work_on_items(items, frame)
            else:
                work_on_frame(items, frame, batch)

    def _record_failure(self, station: Station, error: Exception) -> None:
        """Record that the reserved batch failed, as a batch that keeps failing is halved."""
        with suppress(StanchionError):  # the store may be what failed
            if found := SinkBatch.pending(self.pipeline.context.store, station.queue):
                found[0].failed(user_error(_text(error)))

    def _failure(self, station: Station, error: Exception | None) -> _Failure:
        raised = self.raised.pop(station.station, None)
        text = str(error or "it was stopped from outside") if raised is None else _text(raised)
        lasting = any(name in text for name in _LASTING)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        own = [line for line in lines if any(f"{name}: " in line for name in _LASTING)]
        message = f"the query of station {station.station!r} failed: {(own or lines)[0][:_SHOWN]}"
        return _Failure(message, lasting)

    def _release(self, station: Station) -> None:
        """Give back reserved items now, instead of after missed heartbeats."""
        store = self.pipeline.context.store
        if any(stream.name == station.queue and stream.reserved_jobs for stream in streams(store)):
            release(store, station.queue)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="stanchion-pipeline-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class _Failure(NamedTuple):
    """Why a query failed, and whether it would keep failing."""

    message: str
    lasting: bool
