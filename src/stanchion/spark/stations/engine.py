"""A pipeline on Spark: each station is a Structured Streaming query, and all run concurrently.

The store has the reserved items and the position of each stream. A failed query is restarted, and another process can
replace a dead one. So checkpoints do not matter here, and each run starts with a new one.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stanchion.context import context_of
from stanchion.errors import StanchionError
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.station import Station
from stanchion.spark.session import session
from stanchion.spark.stations.queries import Queries
from stanchion.spark.stations.stateful import check, windows_of
from stanchion.streams import release, streams
from stanchion.streams.state import KIND, StreamState, has_unnumbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("stanchion.spark")

_TICK_SECONDS = 0.2
_LOOK_SECONDS = 1.0
"""Interval of polls for due items while all stations have a query: each steps over remains of claims in indexes."""
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 1.0, 30.0
_FAILURES_IN_A_ROW = 60
"""Tries of a station with `available_now`: enough to halve a batch until the item that breaks it is alone."""
_SHOWN = 500
_LASTING = ("StreamTaken", "StreamStopped", "ForeignCheckpoint", "InvalidInput", "MissingExtra", "BatchNotKept")
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
    plan_of(pipeline).prepare()
    chosen = plan_of(pipeline).chosen(stations)
    check(chosen)
    spark = spark or session()
    with _folder() as folder:
        queries = Queries(spark, partitions or _cores(spark), folder)
        _Engine(pipeline, chosen, queries, stop or threading.Event(), available_now).run()


@dataclass
class _Engine:
    pipeline: Pipeline
    stations: Sequence[Station]
    queries: Queries
    stop: threading.Event
    until_empty: bool
    running: dict[str, StreamingQuery] = field(default_factory=dict)
    begin_at: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    """Failures in a row of each station, without a batch in between that it has processed."""

    def run(self) -> None:
        """Keep a query running for each station, until the engine is stopped or no item is due."""
        try:
            while not self.stop.is_set() and (wanted := self._wanted()):
                for _ in range(round(_LOOK_SECONDS / _TICK_SECONDS)):
                    for station in wanted:
                        self._keep(station)
                    if self.stop.wait(_TICK_SECONDS) or len(self.running) < len(self.stations):
                        break
        finally:
            for query in self.running.values():
                query.stop()
            self._release()

    def _wanted(self) -> Sequence[Station]:
        """Return the stations that need a query now; none if the work is done.

        Stations that items will reach are started too, as the start of a query takes long.
        """
        if not self.until_empty:
            return self.stations
        due = self._due() | self._unpublished() or self._due_behind_windows()
        busy = [one for one in self.stations if one.queue in due]
        behind = {station for one in busy for station in one.topology.followers[one.station]}
        begun = behind.union(self.running, (one.station for one in busy))
        return [one for one in self.stations if one.station in begun] if due else []

    def _due(self) -> set[str]:
        """Return the queues with due or reserved items.

        The queries run meanwhile. An item can only be overlooked if it is claimed between two of these reads, and
        the number of claims shows that: then the running stations have to be read again.
        """
        store = context_of(self.pipeline).store
        queues = [station.queue for station in self.stations]
        claims = self._claims(queues)
        states = {value.name: StreamState.of(value) for value in store.values(KIND, queues)}
        pending = {name for name, state in states.items() if state.pending}
        if pending and len(self.running) == len(self.stations):
            return pending  # no other station will start, so their due items need not be read
        taken = {name for name, state in states.items() if name in pending or has_unnumbered(store, state)}
        paused = {settings.name for settings in store.queues(queues) if settings.paused}
        stats, now = store.stats(queues, ["next_due"]), store.now()
        next_due = {queue: stats[queue].next_due for queue in queues if queue not in paused}
        due = taken | {queue for queue, due_at in next_due.items() if due_at is not None and due_at <= now}
        if due or self._claims(queues) == claims:
            return due
        return {station.queue for station in self.stations if station.station in self.running}

    def _unpublished(self) -> set[str]:
        """Return the queues of stations with a watermark that have no query yet in this run, and had a batch before.

        Their last driver may have died before it published the windows that its last batch had closed.
        """
        behind = [one.queue for one in self.stations if windows_of(one) is not None and one.station not in self.running]
        states = map(StreamState.of, context_of(self.pipeline).store.values(KIND, behind) if behind else ())
        return {state.queue for state in states if state.seen is not None}

    def _due_behind_windows(self) -> set[str]:
        """Wait until the windows that the last items have closed are published; return the items due then."""
        for station in self.stations:
            query = self.running.get(station.station)
            if query is not None and windows_of(station) is not None:
                try:
                    query.processAllAvailable()
                except Exception:  # Spark's errors have no common class; the query is looked at, and started again
                    return {station.queue}
        return self._due()

    def _claims(self, queues: Sequence[str]) -> int:
        stats = context_of(self.pipeline).store.stats(queues, ["totals"])
        return sum(stats[queue].totals.reserved for queue in queues)

    def _keep(self, station: Station) -> None:
        """Start the query of a station, unless it runs, or has failed a moment ago."""
        name = station.station
        query = self.running.get(name)
        if query is not None and query.isActive:
            return
        if query is not None:
            del self.running[name]
            self._after(station, query)
        if time.monotonic() >= self.begin_at.get(name, 0.0):
            self.running[name] = self.queries.start(station)

    def _after(self, station: Station, query: StreamingQuery) -> None:
        """Decide what follows the end of a query: a restart, immediately or later, or its error."""
        error = query.exception()
        failure = _failure(station, self.queries.failed(station, error))
        if _has_processed(query):
            self.failures[station.station] = 0
            self.pauses.pop(station.station, None)
        self.failures[station.station] += 1
        if failure.lasting or (self.until_empty and self.failures[station.station] > _FAILURES_IN_A_ROW):
            raise StanchionError(failure.message) from error
        pause = 0.0 if self.until_empty else self._longer_pause(station)
        log.warning("%s; restarting it in %.0f s", failure.message, pause)
        self.begin_at[station.station] = time.monotonic() + pause

    def _longer_pause(self, station: Station) -> float:
        last = self.pauses.get(station.station, _PAUSE_SECONDS_MIN / 2)
        pause = self.pauses[station.station] = min(2 * last, _PAUSE_SECONDS_MAX)
        return pause

    def _release(self) -> None:
        """Return reserved items now, instead of after missed heartbeats."""
        store = context_of(self.pipeline).store
        reserved = {stream.name for stream in streams(store) if stream.reserved_jobs}
        for station in self.stations:
            if station.queue in reserved:
                release(store, station.queue)


class _Failure(NamedTuple):
    """Why a query failed, and whether it would keep failing."""

    message: str
    lasting: bool


def _failure(station: Station, text: str) -> _Failure:
    lasting = any(name in text for name in _LASTING)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if any(f"{name}: " in line for name in _LASTING)]
    return _Failure(f"the query of station {station.station!r} failed: {(own or lines)[0][:_SHOWN]}", lasting)


def _has_processed(query: StreamingQuery) -> bool:
    """Return whether a query has processed a batch, and not only looked for one."""
    return any("addBatch" in progress["durationMs"] for progress in query.recentProgress)


def _cores(spark: SparkSession) -> int:
    """Return the number of cores; with Spark Connect, which hides it, this machine's."""
    from pyspark.sql.utils import is_remote

    return os.cpu_count() or 1 if is_remote() else spark.sparkContext.defaultParallelism


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="stanchion-pipeline-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
