"""A pipeline: stations connected by queues, with items moving on in one atomic step each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar, Unpack, overload

from stanchion.context.context import Context
from stanchion.context.queues.options import StationQueueOptions
from stanchion.core.checks import acted_ids, whole
from stanchion.core.concurrency.aio import off_loop, off_loop_alone
from stanchion.core.graph.draw import GraphForm, drawn
from stanchion.core.retry import Retry
from stanchion.core.types import Transaction
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.jobs.options import PushOptions
from stanchion.jobs.search import PageOptions
from stanchion.pipelines.backfilling.call import Given, backfill_of, backfills_of
from stanchion.pipelines.backfilling.record import Backfill
from stanchion.pipelines.chunks.ends import Takes
from stanchion.pipelines.chunks.pushing import BUCKETS, SIZE, push_chunks
from stanchion.pipelines.chunks.splitting import split
from stanchion.pipelines.expectation import Expectation, OnFail
from stanchion.pipelines.finding import checked_query, found
from stanchion.pipelines.options import MAX_ROUNDS, Frame, PayloadMode, Run, StationOptions, Stored, Targets, Windows
from stanchion.pipelines.outputs import KeyOf, current
from stanchion.pipelines.plan import PipelinePlan
from stanchion.pipelines.replay import copies_of
from stanchion.pipelines.segments.plan import ExecutionPlan, execution_plan
from stanchion.pipelines.status import PipelineStatus, status_of
from stanchion.pipelines.tables.table import Form
from stanchion.queues.queue import Queue
from stanchion.tasks.coroutines import refuse_running_loop
from stanchion.tasks.testing.inline import drained

F = TypeVar("F", bound=Callable[..., object])


class Pipeline:
    """Stations of one app, and the links between them. Made by `app.pipeline(name)`."""

    def __init__(
        self, context: Context, name: str, run: Run, *, keep_entry: bool = True, stored: Stored = "needed"
    ) -> None:
        self._plan, self._run = PipelinePlan(context, name, keep_entry=keep_entry, stored=stored), run
        self._plan.pipeline = self

    @property
    def name(self) -> str:
        """The name; the names of its queues begin with it."""
        return self._plan.name

    @property
    def _context(self) -> Context:
        return self._plan.context

    # -- stations

    def station(
        self,
        name: str,
        /,
        *,
        to: Targets = None,
        entry: bool = False,
        payload: PayloadMode = "replace",
        retry: Retry | None = None,
        max_attempts: int | None = None,
        limits: Collection[str] = (),
        timeout: float | timedelta | None = None,
        max_rounds: int = MAX_ROUNDS,
        key: KeyOf | None = None,
        stored: bool = False,
        takes: Takes | None = None,
        keep_arrival: bool = False,
        **settings: Unpack[StationQueueOptions],
    ) -> Callable[[F], F]:
        """Register a function that processes the items of a station, in the queue `pipeline.name`.

        `to`: the stations that an item may move to, and the tables (`Table`) that it may be written to; without it the
        station is an end. `entry`: items are pushed here, as they are to the first station. `payload`: whether the
        returned value replaces the item or is merged into it. `retry`, `max_attempts`, `limits`, `timeout`: as for a
        task. `max_rounds`: how often an item may enter the station by a loop. `key`: the field of an item, or a
        function of it, by which the station has one current output, of the newest version; see `output`. `stored`:
        items are stored before the function is called, and again when it has returned, so that the death of a worker at
        another station does not repeat it. `takes`: the function gets the items of a chunk as a table of this library,
        with the place of each in a column `item`, and returns one, or Sends of such; a text in a column `error` fails
        an item. `keep_arrival`: an item keeps the payload with which it arrived here, so that a replay or backfill can
        begin at the station. `settings`: of the queue; its dead letters go to `pipeline.dead`.
        """

        options = StationOptions.of(
            *(to, entry, payload, retry or self._context.retry, max_attempts, limits, timeout, max_rounds, settings),
            *(key, stored, takes, keep_arrival),
        )

        def register(function: F) -> F:
            self._plan.declare(name, function, options, settings)
            return function

        return register

    def spark_station(
        self,
        name: str,
        /,
        *,
        schema: str,
        to: Targets = None,
        entry: bool = False,
        max_per_batch: int | None = None,
        rows_per_job: int | None = None,
        worker: Callable[..., object] | None = None,
        watermark: tuple[str, str | float | timedelta] | None = None,
        late: str | None = None,
        checkpoint: str | Path | None = None,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        max_rounds: int = MAX_ROUNDS,
        stored: bool = False,
        keep_arrival: bool = False,
        **settings: Unpack[StationQueueOptions],
    ) -> Callable[[F], F]:
        """Register a function that processes batches of items on Spark, as a DataFrame of this schema and `job_id`.

        It returns a DataFrame, or one for each target: rows with a `job_id` move that item on, others are new items.
        `worker`: the same for one item, for workers. `rows_per_job`: store new items in chunks of up to so many.
        `watermark`: a field with the time of an item, and how long to wait for later ones; the function gets the stream
        of the items, and its rows are new items. `late`: the station for late items, by default the dead letters;
        `checkpoint`: a lasting folder. `stored`, `keep_arrival`: see `station`.
        """
        options = StationOptions.of(
            *(to, entry, "replace", retry or self._context.retry, max_attempts, (), None, max_rounds, settings),
            *(None, stored, None, keep_arrival),
        )._replace(on_spark=True, in_batches=watermark is None)
        windows = Windows.of(schema, options, watermark, late, checkpoint)
        if windows is not None and worker is not None:
            raise InvalidInput(f"station {name!r} has a watermark, so workers can't run it: leave worker= out")
        if late is not None and late not in options.to:
            options = options._replace(to=(*options.to, late))

        def register(function: F) -> F:
            frame = Frame.of(function, schema, max_per_batch, windows, rows_per_job)
            self._plan.declare(name, function, options, settings, frame, worker)
            return function

        return register

    def expect(self, condition: str, /, *, on_fail: OnFail = "bury") -> Callable[[F], F]:
        """Require a condition in SQL of each item of a station: `etl.expect("miles > 0")`.

        Put it below `station` or `spark_station`. An item for which it is false or null does not reach the function.
        `on_fail`: it becomes a dead letter ("bury"), is cancelled ("drop"), or pauses the station and returns to it
        ("stop"). Of several, the first failure decides. Raises InvalidInput for an invalid one, and MissingExtra.
        """
        expected = Expectation.of(condition, on_fail)

        def declare(function: F) -> F:
            self._plan.expect(function, expected)
            return function

        return declare

    # -- items in

    def push(
        self, item: object, station: str | None = None, *, tx: Transaction | None = None, **options: Unpack[PushOptions]
    ) -> Job:
        """Store an item at a station, by default the first one, with the options of `Queue.push`."""
        return self._into(station).push(item, tx=tx, **options)

    def push_many(
        self, items: Iterable[object], station: str | None = None, *, tx: Transaction | None = None
    ) -> list[Job] | int:
        """Store many items, or `Push(item, **options)`, at a station; see `Queue.push_many`."""
        queue = self._into(station)
        if isinstance(items, Collection):
            return queue.push_many(items, tx=tx)
        return queue.push_many(items, tx=tx)  # type: ignore[call-overload,no-any-return] # any iterable, or a TypeError

    def push_chunks(
        self,
        items: object,
        station: str | None = None,
        *,
        size: int = SIZE,
        buckets: int = BUCKETS,
        tx: Transaction | None = None,
        **options: Unpack[PushOptions],
    ) -> list[Job]:
        """Store items at a station, many in one job: in chunks of up to `size` items. Return the jobs that carry them.

        `items`: an iterable, or a table of pandas, polars or pyarrow. Chunks above `max_payload` are halved; a chunk of
        one is an ordinary item. Two options name a field of the items: a chunk has the items of one `tenant`, and the
        hash of the `order_key` selects one of `buckets` streams, whose chunks run in order. Eight chunks are stored in
        one step; with `tx`, all are. Needs pyarrow. Raises InvalidInput for an item without a value in this field.
        """
        return push_chunks(self._context, self._into(station).name, items, size, buckets, tx, options)

    def _into(self, station: str | None) -> Queue:
        station = self._plan.first() if station is None else station
        queue = self.queue(station)
        self._plan.topology.pushed(station)
        self._plan.check()
        return queue

    # -- inspecting and operating

    def queue(self, station: str) -> Queue:
        """Return the queue of a station. Raises InvalidInput if it is not declared."""
        return Queue(self._context, self._plan.station(station).queue)

    def find(self, station: str | None = None, **search: Unpack[PageOptions]) -> list[Job]:
        """Search the items of all stations, newest first, with the options of `Queue.find`.

        `station`: items there, items that have passed it, also dead letters, and items split from another after it.
        """
        return found(self._context, self._plan.topology, self._plan.queue_of(station), checked_query(search))

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
        them; returns the number of items. Dead letters may run again too, and stay where they are. An item that was
        split from another before that station, or cut from a chunk there, stands for the other, which is copied once.
        `write_id`: a name for this replay; for 30 days, repeating it does nothing. Raises InvalidInput, and enqueues
        nothing, if an item of `ids` is still on its way, has not passed the station, or its payload there was not
        kept; a search leaves these out. Unknown ids are left out.
        """
        self._plan.check()
        reruns = self._plan.reruns(from_, write_id)
        if ids is None:
            reruns.run(self._plan.chosen_ids(from_, **search))
            return reruns.items
        if search:
            raise InvalidInput("give ids, or options that select items, not both")
        return list(copies_of(self._context, reruns.run(acted_ids(ids), strict=True)))

    def split(self, job_id: str, items: Iterable[int] | None = None) -> list[Job]:
        """Make a job of each of these items of a chunk, named by their places (None: of all); the rest stays a chunk.

        The chunk waits in a queue, which may be paused, or is a dead letter, as its items are then. They keep its time,
        attempts and errors; nothing runs. Returns the jobs of the items in their order, then the chunk of the others.
        Each step splits up to 1,000 items, or 2 MiB; at any time each item is in one live job or dead letter. Raises
        InvalidInput for more than 10,000 items, an unknown one, and a job that is running, has ended, or is no chunk
        of this pipeline; JobNotFound.
        """
        stations = {one.queue: one for one in self._plan.stations.values()}
        return list(copies_of(self._context, split(self._context, stations, job_id, items)))

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
        watch: Callable[[Backfill], object] = lambda _done: None,
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
        self._plan.check()
        given = Given(station, since, until, source, name, priority)
        return backfill_of(self._context, self._plan.topology, given, dry_run=dry_run, max_live=max_live, watch=watch)

    def output(self, station: str, key: str | int) -> Job | None:
        """Return the item that is the current output of a key at a station with `key=`, None: none, or purged."""
        found, _ = current(self._context.store, self._plan.station(station).queue, str(key))
        return None if found is None else next(copies_of(self._context, [found.item]), None)

    def results(self, station: str, *, as_: Form = "pandas", limit: int | None = None, spark: object = None) -> object:
        """Return the results of a station as a DataFrame: one row an item, with `job_id` and `item`.

        Of an end station, the results in history, oldest job first; of one that writes to a table, its rows. They have
        the types of the class that the function says it returns, else those that Arrow infers. `as_`: a table of
        "pandas", "arrow" or "polars". `limit`: the most rows. `spark`: a session, which makes a DataFrame of its own.
        Raises InvalidInput for a station that sends items on.
        """
        from stanchion.pipelines.tables.results import results_as

        return results_as(self._plan.station(station), as_, None if limit is None else whole(limit, "limit", 0), spark)

    def backfills(self) -> list[Backfill]:
        """Return the backfills of this pipeline, the latest first; one without `done_at` runs, or was cut off."""
        return backfills_of(self._context, self.name)

    @property
    def dead_letters(self) -> Queue:
        """The queue of dead items; `retry` puts one back to its station."""
        return Queue(self._context, self._plan.dead_letters)

    def status(self, before: PipelineStatus | None = None) -> PipelineStatus:
        """Return the depths and totals of the stations, with the rates since the status `before`."""
        return status_of(self._context.store, self.name, self._plan.stations.values(), self._plan.dead_letters, before)

    def plan(self) -> ExecutionPlan:
        """Return where items are stored between the stations, and why; elsewhere a worker passes them in memory."""
        self._plan.check()
        topology, store = self._plan.topology, self._context.store
        stations = {one.queue: name for name, one in self._plan.stations.items()}
        settings = () if topology.stored == "always" else store.queues(topology.queues)
        in_force = {stations[one.name]: one for one in settings}
        return execution_plan(self.name, topology.edges, in_force, topology.rows)

    def graph(self, form: GraphForm = "text") -> str:
        """Return the stations and their links, drawn as `text`, `svg`, `mermaid` or `dot` (for Graphviz)."""
        self._plan.check()
        return drawn(self._plan.graph, form)

    def svg(self) -> str:
        """Return the stations and their links, drawn as SVG."""
        return self.graph("svg")

    def pause(self, *stations: str) -> None:
        """Pause these stations, or all, in every process; items still come in."""
        for station in self._plan.chosen(stations):
            Queue(self._context, station.queue).pause()

    def resume(self, *stations: str) -> None:
        """Resume these stations, or all."""
        for station in self._plan.chosen(stations):
            Queue(self._context, station.queue).resume()

    # -- running

    @property
    def queues(self) -> list[str]:
        """The names of the stations' queues."""
        return self._plan.topology.queues

    def run(
        self, threads: int = 8, *, until_empty: bool = False, available_now: bool = False, **options: object
    ) -> None:
        """Run a worker in this process until SIGTERM, SIGINT, or until no work is left; see `stanchion.Worker`.

        `until_empty`: until no station has an item, not even one that waits for a retry. `available_now`: until no
        item is due. Both wait for paused stations that have items.
        """
        self._plan.check()
        self._run(self._context, self.queues, threads, until_empty=available_now, until_finished=until_empty, **options)

    def drain(self) -> int:
        """Run all due items in this thread; return the number of attempts. On a running event loop, use `adrain`."""
        refuse_running_loop("pipeline.adrain")
        self._plan.check()
        return drained(self._context, self.queues)

    adrain = off_loop_alone(drain)
    apush = off_loop(push)
    apush_many = off_loop(push_many)
    apush_chunks = off_loop(push_chunks)
    afind = off_loop(find)
    areplay = off_loop(replay)
    asplit = off_loop(split)
    abackfill = off_loop_alone(backfill)
    aoutput = off_loop(output)
    aresults = off_loop(results)
    abackfills = off_loop(backfills)
    astatus = off_loop(status)
    aplan = off_loop(plan)
    apause = off_loop(pause)
    aresume = off_loop(resume)

    def __repr__(self) -> str:
        return f"<Pipeline {self.name!r} of {self._context!r}: {', '.join(self._plan.stations)}>"


def plan_of(pipeline: Pipeline) -> PipelinePlan:
    """Return the plan of a pipeline."""
    return pipeline._plan
