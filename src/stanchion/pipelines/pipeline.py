"""A pipeline: stations connected by queues, with items moving on in one atomic step each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack, overload

from stanchion.context.context import Context
from stanchion.context.queue_options import StationQueueOptions
from stanchion.core.aio import off_loop, off_loop_alone
from stanchion.core.callables import redefines
from stanchion.core.checks import acted_ids, checked_name
from stanchion.core.graph.draw import GraphForm, drawn
from stanchion.core.retry import Retry
from stanchion.core.transactions import Tx
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.jobs.options import PushOptions
from stanchion.jobs.search import PageOptions
from stanchion.pipelines.backfilling.call import Given, backfill_of, backfills_of
from stanchion.pipelines.backfilling.record import Backfill
from stanchion.pipelines.declared_record import DeclaredRecord
from stanchion.pipelines.expectation import DeclaredExpectations, Expectation, OnFail
from stanchion.pipelines.finding import checked_query, found, found_ids
from stanchion.pipelines.graph import graph_of
from stanchion.pipelines.options import MAX_ROUNDS, Frame, PayloadMode, StationOptions
from stanchion.pipelines.outputs import KeyOf, current
from stanchion.pipelines.record import PipelineRecord
from stanchion.pipelines.replay import FINAL, Reruns, copies_of
from stanchion.pipelines.station import Station
from stanchion.pipelines.status import PipelineStatus, status_of
from stanchion.pipelines.topology import DEAD, Topology
from stanchion.pipelines.windows import Windows
from stanchion.queues.queue import Queue, declared_queue
from stanchion.stores.protocol import Store
from stanchion.tasks.coroutines import refuse_running_loop
from stanchion.tasks.inline import drained

F = TypeVar("F", bound=Callable[..., Any])


class Run(Protocol):
    """Runs a worker in this process until it is stopped."""

    def __call__(self, context: Context, queues: Collection[str], threads: int, /, **options: Any) -> None: ...


class Pipeline:
    """Stations of one app, and the links between them. Made by `app.pipeline(name)`."""

    def __init__(self, context: Context, name: str, run: Run, *, keep_entry: bool = True) -> None:
        self._context, self.name = context, checked_name(name, "the name of a pipeline")
        self.stations: dict[str, Station] = {}
        self._topology = Topology(name, keep_entry=keep_entry)
        self._expected = DeclaredExpectations()
        self._run = run
        self._record = DeclaredRecord(name, self.stations)

    # -- stations

    def station(
        self,
        name: str,
        /,
        *,
        to: str | Collection[str] | None = None,
        entry: bool = False,
        payload: PayloadMode = "replace",
        retry: Retry | None = None,
        max_attempts: int | None = None,
        limits: Collection[str] = (),
        timeout: float | timedelta | None = None,
        max_rounds: int = MAX_ROUNDS,
        key: KeyOf | None = None,
        **settings: Unpack[StationQueueOptions],
    ) -> Callable[[F], F]:
        """Register a function that processes the items of a station, in the queue `pipeline.name`.

        `to`: the stations that an item may move to; without it the station is an end. `entry`: items are pushed here,
        as they are to the first station. `payload`: whether the returned value replaces the item or is merged into
        it. `retry`, `max_attempts`, `limits`, `timeout`: as for a task. `max_rounds`: how often an item may enter the
        station by a loop. `key`: the field of an item, or a function of it, by which the station has one current
        output, of the newest version; see `output`. `settings`: of the queue; its dead letters go to
        `pipeline.dead`.
        """

        options = StationOptions.of(
            to, entry, payload, retry or self._context.retry, max_attempts, limits, timeout, max_rounds, settings, key
        )

        def register(function: F) -> F:
            expected = self._expected.of(function, tells=not self._context.codec.has_keys)
            self._add(Station(self._context, self._topology, name, function, options, None, expected), settings)
            return function

        return register

    def spark_station(
        self,
        name: str,
        /,
        *,
        schema: str,
        to: str | Collection[str] | None = None,
        entry: bool = False,
        max_per_batch: int = 10_000,
        worker: Callable[..., Any] | None = None,
        watermark: tuple[str, str | float | timedelta] | None = None,
        late: str | None = None,
        checkpoint: str | Path | None = None,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        max_rounds: int = MAX_ROUNDS,
        **settings: Unpack[StationQueueOptions],
    ) -> Callable[[F], F]:
        """Register a function that processes batches of items on Spark, as a DataFrame of this schema and `job_id`.

        It returns a DataFrame, or one for each target: rows with a `job_id` move that item on, others are new items.
        `worker`: a function of one item that does the same; without it workers can't run this station. `watermark`: a
        field with the time of an item, and how long to wait for later ones. The function then gets the stream of the
        items, once, for windows; its rows are new items. `late`: the station for items that come too late, by default
        the dead letters; `checkpoint`: a folder for open windows, which has to last.
        """

        options = StationOptions.of(
            to, entry, "replace", retry or self._context.retry, max_attempts, (), None, max_rounds, settings
        )
        windows = Windows.of(schema, options.to, watermark, late, checkpoint)
        if windows is not None and worker is not None:
            raise InvalidInput(f"station {name!r} has a watermark, so workers can't run it: leave worker= out")
        if late is not None and late not in options.to:
            options = options._replace(to=(*options.to, late))

        def register(function: F) -> F:
            frame = Frame(function, schema, max_per_batch, windows)
            expected = self._expected.of(function, worker, tells=not self._context.codec.has_keys)
            self._add(Station(self._context, self._topology, name, worker, options, frame, expected), settings)
            return function

        return register

    def expect(self, condition: str, /, *, on_fail: OnFail = "bury") -> Callable[[F], F]:
        """Require a condition in SQL of each item of a station: `etl.expect("miles > 0")`.

        Put it below `station` or `spark_station`. An item that fails it, or for which it is unknown because of a null,
        does not reach the function. `on_fail`: it becomes a dead letter ("bury"), is cancelled ("drop"), or pauses the
        station and returns to it ("stop"). Of several, the first failure decides. Raises InvalidInput for an invalid
        condition, and MissingExtra without sqlglot.
        """
        expected = Expectation.of(condition, on_fail)

        def declare(function: F) -> F:
            if any(function in one.functions for one in self.stations.values()):
                raise InvalidInput(
                    f"put @{self.name}.expect({condition!r}) below the decorator that declares its station"
                )
            self._expected.add(function, expected)
            return function

        return declare

    def _add(self, station: Station, given: StationQueueOptions) -> None:
        other = self.stations.get(station.station)
        if other is not None and not _same_code(other, station) and not redefines(station.function, other.function):
            raise InvalidInput(
                f"two functions are registered for station {station.station!r} of pipeline {self.name!r}; rename one"
            )
        settings: dict[str, Any] = {"dead_letter": self.dead_letters.name, **given}
        declared_queue(self._context, station.queue, settings)
        self._topology.dead_letters[station.queue] = settings["dead_letter"]
        self.stations[station.station] = self._context.registry.stations[station.queue] = station
        self._topology.add(station.station, station.options)
        self._record.changed()

    @property
    def entries(self) -> list[str]:
        """The stations where items enter: the first, those declared as entries, and those pushed to."""
        return self._topology.entries

    def check(self) -> None:
        """Raise InvalidInput for links to unknown stations, and for stations that can't be reached or left.

        Called before the first item.
        """
        self._topology.check()

    def check_worked(self, queues: Collection[str]) -> None:
        """Raise InvalidInput unless workers can serve the stations among these queues."""
        for station in self.stations.values():
            if station.queue in queues:
                station.check_worked()

    def prepare(self) -> None:
        """Check the links, and store the declared settings of the queues."""
        self.check()
        self._context.declare(self.queues[0])

    @property
    def record(self) -> PipelineRecord:
        """The stations and links as they are stored."""
        return self._record.value

    def store_record(self, store: Store) -> None:
        """Store the stations and links, once for each store, for processes without this code."""
        self._record.store(store)

    # -- items in

    def push(self, item: Any, station: str | None = None, *, tx: Tx = None, **options: Unpack[PushOptions]) -> Job:
        """Store an item at a station, by default the first one, with the options of `Queue.push`."""
        return self._into(station).push(item, tx=tx, **options)

    def push_many(self, items: Iterable[Any], station: str | None = None, *, tx: Tx = None) -> list[Job] | int:
        """Store many items, or `Push(item, **options)`, at a station; see `Queue.push_many`."""
        return self._into(station).push_many(items, tx=tx)  # type: ignore[call-overload,no-any-return]

    def _into(self, station: str | None) -> Queue:
        if station is None:
            self.check()
            station = next(iter(self.stations))
        queue = self.queue(station)
        self._topology.pushed(station)
        self.check()
        return queue

    # -- inspecting and operating

    def queue(self, station: str) -> Queue:
        """Return the queue of a station. Raises InvalidInput if it is not declared."""
        return Queue(self._context, self._station(station).queue)

    def find(self, station: str | None = None, **search: Unpack[PageOptions]) -> list[Job]:
        """Search the items of all stations, newest first, with the options of `Queue.find`.

        `station`: items there, items that have passed it, also dead letters, and items split from another after it.
        """
        return found(self._context, self._topology, self._queue_of(station), checked_query(search))

    def _queue_of(self, station: str | None) -> str | None:
        return None if station is None else self._station(station).queue

    @overload
    def replay(self, ids: Iterable[str], *, from_: str | None = None, write_id: str | None = None) -> list[Job]: ...
    @overload
    def replay(
        self, *, from_: str | None = None, write_id: str | None = None, **search: Unpack[PageOptions]
    ) -> int: ...
    def replay(
        self,
        ids: Iterable[str] | None = None,
        *,
        from_: str | None = None,
        write_id: str | None = None,
        **search: Unpack[PageOptions],
    ) -> list[Job] | int:
        """Run finished items again from the station `from_`, by default from that where each entered.

        Enqueues copies with the payload that they had there, all in one step; each names its `origin`. `ids`: which
        items; returns the copies. Or options of `find` select done, dead and cancelled ones, `limit` the newest of
        them; returns the number of copies. Dead letters may run again too, and stay where they are. An item that was
        split from another before that station stands for the other, which is copied once. `write_id`: a name for this
        replay; for 30 days, repeating it does nothing. Raises InvalidInput, and enqueues nothing, if an item of `ids`
        is still on its way, has not passed the station, or its payload there was not kept; a search leaves these out.
        Unknown ids are left out.
        """
        self.check()
        reruns = self.reruns(from_, write_id)
        if ids is None:
            return len(reruns.run(self.chosen_ids(from_, **search)))
        if search:
            raise InvalidInput("give ids, or options that select items, not both")
        return list(copies_of(self._context, reruns.run(acted_ids(ids), strict=True)))

    def chosen_ids(self, station: str | None = None, **search: Unpack[PageOptions]) -> Iterator[str]:
        """Yield the ids of the finished items that a search finds, oldest first; `limit`: of the newest only."""
        if not any(value is not None for value in search.values()):
            raise InvalidInput("which items? give ids, or options that select them, such as state='dead'")
        search.setdefault("state", FINAL)
        limit, query = search.get("limit"), checked_query(search)
        return found_ids(self._context.store, self._topology, self._queue_of(station), query, limit)

    def reruns(self, station: str | None = None, write_id: str | None = None) -> Reruns:
        """Return the replay of items from a station, to be planned, staged batch by batch, and published."""
        return Reruns(self._context, self._topology, station, write_id)

    def backfill(
        self,
        station: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        source: str | Path | None = None,
        name: str | None = None,
        dry_run: bool = False,
        max_live: int | None = None,
        priority: int | None = None,
        watch: Callable[[Backfill], Any] = lambda _done: None,
    ) -> Backfill:
        """Run a station and its successors again, with today's code, over items that arrived in a window of time.

        Enqueues copies of the finished items that arrived at the station from `since` until before `until`, by default
        up to now, page by page; workers or Spark process them like others. `source`: the folder of an archive that has
        the items; by default history. `name`: a backfill of this name is done once: repeating it continues after the
        last page, or does nothing if it was done; by default made of the station, the window and the source.
        `dry_run`: only count. `max_live`: wait while the stations would hold more live items than that. `priority`: of
        the copies, by default that of each item. `watch`: called after each page. Raises InvalidInput if the name
        belongs to another backfill.
        """
        self.check()
        given = Given(station, since, until, source, name, priority)
        return backfill_of(self._context, self._topology, given, dry_run=dry_run, max_live=max_live, watch=watch)

    def output(self, station: str, key: str | int) -> Job | None:
        """Return the item that is the current output of a key at a station with `key=`, None: none, or purged."""
        found, _ = current(self._context.store, self._station(station).queue, str(key))
        return None if found is None else next(copies_of(self._context, [found.item]), None)

    def backfills(self) -> list[Backfill]:
        """Return the backfills of this pipeline, the latest first; one without `done_at` runs, or was cut off."""
        return backfills_of(self._context, self.name)

    @property
    def dead_letters(self) -> Queue:
        """The queue of dead items; `retry` puts one back to its station."""
        return Queue(self._context, f"{self.name}.{DEAD}")

    def status(self, before: PipelineStatus | None = None) -> PipelineStatus:
        """Return the depths and totals of the stations, with the rates since the status `before`."""
        return status_of(self._context.store, self.name, self.stations.values(), self.dead_letters.name, before)

    def graph(self, form: GraphForm = "text") -> str:
        """Return the stations and their links, drawn as `text`, `svg`, `mermaid` or `dot` (for Graphviz)."""
        self.check()
        return drawn(graph_of(self.name, self.stations, self.entries), form)

    def svg(self) -> str:
        """Return the stations and their links, drawn as SVG."""
        return self.graph("svg")

    def pause(self, *stations: str) -> None:
        """Pause these stations, or all, in every process; items still come in."""
        for station in self.chosen(stations):
            Queue(self._context, station.queue).pause()

    def resume(self, *stations: str) -> None:
        """Resume these stations, or all."""
        for station in self.chosen(stations):
            Queue(self._context, station.queue).resume()

    def chosen(self, names: Collection[str]) -> list[Station]:
        """Return the stations of these names, or all. Raises InvalidInput if one is not declared."""
        return [self._station(name) for name in names] if names else list(self.stations.values())

    def _station(self, name: str) -> Station:
        return self.stations[self._topology.named(name)]

    # -- running

    @property
    def queues(self) -> list[str]:
        """The names of the stations' queues."""
        return self._topology.queues

    def run(self, threads: int = 8, *, until_empty: bool = False, available_now: bool = False, **options: Any) -> None:
        """Run a worker in this process until SIGTERM, SIGINT, or until no work is left; see `stanchion.Worker`.

        `until_empty`: until no station has an item, not even one that waits for a retry. `available_now`: until no
        item is due. Both wait for paused stations that have items.
        """
        self.check()
        self._run(self._context, self.queues, threads, until_empty=available_now, until_finished=until_empty, **options)

    def drain(self) -> int:
        """Run all due items in this thread; return the number of attempts. On a running event loop, use `adrain`."""
        refuse_running_loop("pipeline.adrain")
        self.check()
        return drained(self._context, self.queues)

    adrain = off_loop_alone(drain)
    apush = off_loop(push)
    apush_many = off_loop(push_many)
    afind = off_loop(find)
    areplay = off_loop(replay)
    abackfill = off_loop_alone(backfill)
    aoutput = off_loop(output)
    abackfills = off_loop(backfills)
    astatus = off_loop(status)
    apause = off_loop(pause)
    aresume = off_loop(resume)

    def __repr__(self) -> str:
        return f"<Pipeline {self.name!r} of {self._context!r}: {', '.join(self.stations)}>"


def _same_code(one: Station, other: Station) -> bool:
    """Return whether two declarations come from the same source, as when a module is loaded twice."""
    first, second = (station.functions[0] for station in (one, other))
    return getattr(first, "__code__", first) == getattr(second, "__code__", second)
