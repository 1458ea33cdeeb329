"""A pipeline on Spark. All its stations run concurrently.

    plain stations   one Spark job for all of them, whose tasks are workers       task_rounds
    Spark stations   a Structured Streaming query for each                        queries

The store has the claimed items and the position of each stream. What fails is started again, and another process can
replace a dead one. So checkpoints do not matter here, and each run starts with a new one.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stanchion.context import context_of
from stanchion.core.checks import positive_seconds, seconds_of
from stanchion.errors import StoreUnavailable
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.station import Station
from stanchion.spark.datasource.options import reachable_url
from stanchion.spark.session import session
from stanchion.spark.stations.backlog import Backlog
from stanchion.spark.stations.queries import Queries
from stanchion.spark.stations.reports import Reports, Watch
from stanchion.spark.stations.restarts import Restarts
from stanchion.spark.stations.stateful import check, windows_of
from stanchion.spark.stations.task_rounds import TaskRound, TaskRounds
from stanchion.streams import release, streams
from stanchion.streams.state import KIND, StreamState
from stanchion.worker.process.signals import Calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("stanchion.spark")

_TICK_SECONDS = 0.2
_LOOK_SECONDS = 1.0
"""Interval of polls for due items while all stations run: each steps over remains of claims in indexes."""
_TRIES = 60
"""Tries of a query with `available_now`: enough to halve a batch until the item that breaks it is alone."""
_ROUNDS = 10
"""Rounds of tasks with `available_now` that fail without having claimed an item."""
_IDLE_SECONDS = 2.0
"""Seconds without work for plain stations after which their tasks leave the cores to the queries."""
_TURN_SECONDS = 5.0
"""Seconds for which the tasks have the only core, before the queries have it for as long."""
_KILLED_SECONDS = 10.0
_TASKS = "tasks"


def run(
    pipeline: Pipeline,
    stations: Collection[str] = (),
    *,
    spark: SparkSession | None = None,
    available_now: bool = False,
    partitions: int | None = None,
    stop: threading.Event | None = None,
    heartbeat: float = 10.0,
    grace: float = 30.0,
    watch: Watch | None = None,
) -> None:
    """Run the stations of a pipeline on Spark until it is stopped; with `available_now`, until no item is due or runs.

    SIGTERM, SIGINT and `stop` end it. `stations`: the stations to run, by default all; workers may run the others.
    `spark`: the session, by default from `stanchion.spark.session`. `partitions`: tasks per micro-batch, and for the
    plain stations, by default the number of cores; beside Spark stations, the plain ones get half of them.
    `heartbeat`, `grace`: of the workers in tasks, in seconds. `watch`: called every few seconds with the progress of
    the stations. Raises StanchionError if another process starts to run the same Spark stations, and with
    `available_now` if a station keeps failing.
    """
    plan_of(pipeline).prepare()
    chosen = plan_of(pipeline).chosen(stations)
    reachable_url(context_of(pipeline).url)
    check(chosen)
    every, grace = positive_seconds(heartbeat, "heartbeat"), seconds_of(grace, "grace")
    spark = spark or session()
    cores = partitions or _cores(spark)
    plain = [one for one in chosen if one.frame is None]
    tasks = cores if len(plain) == len(chosen) else max(1, cores // 2)
    rounds = TaskRounds(spark, plain, tasks, every, grace) if plain else None
    with _folder() as folder, Calls() as calls:
        stopping, queries = (
            _Stop(calls, stop or threading.Event()),
            Queries(spark, cores, folder, frozenset(one.station for one in chosen)),
        )
        engine = _Engine(chosen, queries, rounds, stopping, available_now, takes_turns=cores == 1)
        engine.run(Reports(plan_of(pipeline), chosen, watch))


@dataclass(frozen=True)
class _Stop:
    """Whether a signal, or another thread, has asked for the end."""

    calls: Calls
    event: threading.Event

    @property
    def asked(self) -> bool:
        return self.event.is_set() or self.calls.signals > 0

    @property
    def at_once(self) -> bool:
        """True after a second signal."""
        return self.calls.signals > 1

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until a signal; return whether the end was asked for."""
        return self.asked or self.calls.wait(seconds) or self.asked


@dataclass
class _Engine:
    """Keeps the query of each Spark station running, and a round of tasks for the plain stations.

    `rounds`: None without plain stations. `takes_turns`: there is only one core for tasks and queries.
    """

    stations: Sequence[Station]
    queries: Queries
    rounds: TaskRounds | None
    stop: _Stop
    until_empty: bool
    takes_turns: bool = False
    running: dict[str, StreamingQuery] = field(default_factory=dict)
    round: TaskRound | None = None

    def __post_init__(self) -> None:
        self.framed = [one for one in self.stations if one.frame is not None]
        self.backlog = Backlog(self.stations[0].context, self.stations)
        self.restarts = Restarts(self.until_empty)
        self._last_wanted: Sequence[Station] = self.stations
        self._claims = 0
        self._busy_at = self._begin_at = 0.0

    def run(self, reports: Reports) -> None:
        """Run until the engine is stopped, or no item is due."""
        try:
            while not self.stop.asked and (wanted := self._wanted()):
                for _ in range(round(_LOOK_SECONDS / _TICK_SECONDS)):
                    for station in wanted:
                        if station.frame is not None:
                            self._keep(station)
                    self._keep_round(wanted)
                    reports.look()
                    if self.stop.wait(_TICK_SECONDS) or len(self.running) < len(self.framed):
                        break
        finally:
            if self.round is not None:
                self.round.end()
            for query in self.running.values():
                query.stop()
            self._wait_for_tasks()
            self._release()
            reports.look(at_last=True)

    # -- which stations have work

    def _wanted(self) -> Sequence[Station]:
        """Return the stations that need a query or tasks now; none if the work is done.

        Spark stations that items will reach are started too, as the start of a query takes long. The tasks of plain
        stations leave their cores to the queries while these have all the work.
        """
        if self.until_empty:
            due = self._due() | self._unpublished() or self._due_behind_windows()
            busy = [one for one in self.stations if one.queue in due]
            behind = {station for one in busy for station in one.topology.followers[one.station]}
            begun = behind.union(self.running, (one.station for one in busy)) if due else ()
            wanted = [one for one in self.stations if one.station in begun]
        elif self.rounds is not None and self.framed:
            try:
                due = self._due()
            except StoreUnavailable as error:
                log.warning("waiting for the store: %s", error)
                return self._last_wanted
            wanted = list(self.stations)
        else:
            return self.stations
        if self.framed:
            wanted = [one for one in wanted if one.frame is not None or one.queue in due]
        self._last_wanted = wanted
        return wanted

    def _due(self) -> set[str]:
        """Return the queues with due or running items."""
        plain = self.round is not None and self.round.active
        here = {one.queue for one in self.stations if one.station in self.running or (plain and one.frame is None)}
        return self.backlog.due(here)

    def _unpublished(self) -> set[str]:
        """Return the queues of stations with a watermark that have no query yet in this run, and had a batch before.

        Their last driver may have died before it published the windows that its last batch had closed.
        """
        behind = [one for one in self.framed if windows_of(one) is not None and one.station not in self.running]
        stored = behind[0].context.store.values(KIND, [one.queue for one in behind]) if behind else ()
        return {state.queue for state in map(StreamState.of, stored) if state.seen is not None}

    def _due_behind_windows(self) -> set[str]:
        """Wait until the windows that the last items have closed are published; return the items due then."""
        for station in self.framed:
            query = self.running.get(station.station)
            if query is not None and windows_of(station) is not None:
                try:
                    query.processAllAvailable()
                except Exception:  # Spark's errors have no common class; the query is looked at, and started again
                    return {station.queue}
        return self._due()

    # -- queries

    def _keep(self, station: Station) -> None:
        """Start the query of a station, unless it runs, or has failed a moment ago."""
        name = station.station
        query = self.running.get(name)
        if query is not None and query.isActive:
            return
        if query is not None:
            del self.running[name]
            self._after(station, query)
        if self.restarts.may_start(name):
            self.running[name] = self.queries.start(station)

    def _after(self, station: Station, query: StreamingQuery) -> None:
        """Decide what follows the end of a query."""
        error = query.exception()
        if _has_processed(query):
            self.restarts.progressed(station.station)
        what, text = f"the query of station {station.station!r}", self.queries.failed(station, error)
        self.restarts.failed(station.station, what, text, error, tries=_TRIES, pause=not self.until_empty)

    # -- tasks

    def _keep_round(self, wanted: Sequence[Station]) -> None:
        """Start a round if plain stations have work; end it while they have none, or when its turn is over."""
        if self.rounds is None:
            return
        busy, now = any(one.frame is None for one in wanted), time.monotonic()
        self._busy_at = now if busy else self._busy_at
        if self.round is not None and self.round.active:
            if not self.round.ending and self._has_had_its_turn(wanted, now):
                self.round.end()
                self._begin_at = now + (_TURN_SECONDS if busy else 0.0)
            return
        if self.round is not None:
            ended, self.round = self.round, None
            self._after_round(ended)
        if busy and now >= self._begin_at and self.restarts.may_start(_TASKS):
            try:
                self._claims = self.backlog.claims()
                self.round = self.rounds.start()
            except StoreUnavailable as error:
                self.restarts.failed(_TASKS, "the start of the tasks", str(error), error, tries=_ROUNDS)

    def _has_had_its_turn(self, wanted: Sequence[Station], now: float) -> bool:
        queries_have_work = self.takes_turns and any(one.frame is not None for one in wanted)
        turn_over = self.round is not None and now - self.round.began > _TURN_SECONDS
        return (queries_have_work and turn_over) or now - self._busy_at > _IDLE_SECONDS

    def _after_round(self, ended: TaskRound) -> None:
        """Decide what follows the end of a round."""
        if ended.ending:
            return
        with suppress(StoreUnavailable):
            if self.backlog.claims() != self._claims:
                self.restarts.progressed(_TASKS)
        text = str(ended.error or "all of them ended")
        self.restarts.failed(_TASKS, "the job of the plain stations", text, ended.error, tries=_ROUNDS)

    def _wait_for_tasks(self) -> None:
        """Let the tasks finish what they run, within their grace; after a second signal, end them at once."""
        if self.round is None:
            return
        deadline = time.monotonic() + self.round.seconds_to_stop
        while not self.round.wait(_TICK_SECONDS):
            if self.stop.at_once or time.monotonic() > deadline:
                self.round.kill()
                self.round.wait(_KILLED_SECONDS)
                return

    def _release(self) -> None:
        """Return reserved items now, instead of after missed heartbeats."""
        if not self.framed:
            return
        store = self.framed[0].context.store
        reserved = {stream.name for stream in streams(store) if stream.reserved_jobs}
        for station in self.framed:
            if station.queue in reserved:
                release(store, station.queue)


def _has_processed(query: StreamingQuery) -> bool:
    """Return whether a query has processed a batch, and not only looked for one."""
    return any("addBatch" in progress["durationMs"] for progress in query.recentProgress)


def _cores(spark: SparkSession) -> int:
    """Return the number of cores that the session has now; Spark Connect hides it, but divides ranges by it."""
    from pyspark.sql.utils import is_remote

    if not is_remote():
        return spark.sparkContext.defaultParallelism
    from pyspark.sql import functions as f

    return spark.range(1 << 12).select(f.spark_partition_id()).distinct().count()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="stanchion-pipeline-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
