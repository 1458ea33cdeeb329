"""The app: one store, its queues and its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast, overload
from zoneinfo import ZoneInfo

from stanchion.alerts.alerts import monitor
from stanchion.alerts.records import Alert, Monitor
from stanchion.context.context import Context
from stanchion.context.testing import START, Clock, url_of_test
from stanchion.context.unknown_work import A_DAY, UnknownWork
from stanchion.context.upkeep import Maintained
from stanchion.core.aio import off_loop
from stanchion.core.checks import checked_name, seconds_of
from stanchion.core.codec import MAX_PAYLOAD, Codec
from stanchion.core.events import Event
from stanchion.core.retry import Retry
from stanchion.cron.schedule import Missed, Schedule, declare, on_task, schedule_named, schedules
from stanchion.cron.ticker import Ticker
from stanchion.feed.event import KINDS
from stanchion.feed.feed import Feed
from stanchion.feed.options import FeedOptions, watch
from stanchion.flows.event_group import EventGroup, opened
from stanchion.flows.handle import FlowHandle
from stanchion.flows.parts import Part, Single, checked_part
from stanchion.jobs import lookup
from stanchion.jobs.call import COLLECT, collected
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.options import EnqueueOptions, Push, checked_timeout, keyed_rate, named_queues
from stanchion.jobs.reservation import Reservation, Settlement
from stanchion.jobs.search import Search
from stanchion.jobs.settling import reservation, reservations, settle
from stanchion.pipelines import Pipeline, Station
from stanchion.queues.consumer import Consumer
from stanchion.queues.queue import Queue, declared_queue, delete_queue, stored_queues
from stanchion.queues.semaphore import Semaphore, declared_semaphore
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store
from stanchion.stores.rules.declared_rates import StoredRate
from stanchion.tasks.enqueuer import Enqueuer
from stanchion.tasks.inline import drained, enqueued
from stanchion.tasks.task import Task, TaskOptions, registered
from stanchion.topics.topic import Topic, topic_of, topics_of
from stanchion.worker.worker import run_worker

P = ParamSpec("P")
R = TypeVar("R")


class Stanchion:
    """One store, its queues and its tasks.

    `url`: the store, such as `sqlite:///jobs.db`, `postgresql://user@host/db` or `memory://`; by default STANCHION_URL.
    It connects at first use. `keys`: Fernet keys, newest first, to encrypt payloads and results. `max_payload`: the
    largest payload in bytes. `poll`: seconds between polls of all live workers together, the fallback for lost signals.
    `bury_unknown_after`: seconds for which a job of an unknown task is put off before it is dead. `timeout`: seconds
    that an attempt may run if neither its job, its task nor its queue says so. `database`: with a URL of managers, that
    of their database, for `tx=`. `traces`: make OpenTelemetry spans.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        store: Store | None = None,
        keys: Sequence[str | bytes] = (),
        max_payload: int = MAX_PAYLOAD,
        poll: float = 0.5,
        bury_unknown_after: float | timedelta = A_DAY,
        timeout: float | timedelta | None = None,
        database: str | None = None,
        traces: bool = False,
    ) -> None:
        codec, unknown_work = Codec(keys, max_payload), UnknownWork(bury_unknown_after)
        self.context = Context(url, store, codec, poll, unknown_work, lookup.job_of, database, traces)
        self.context.timeout = checked_timeout(timeout)
        self.context.registry.built_in[COLLECT] = Task(self.context, collected, COLLECT, self.context.retry, {})
        self._ticker = Ticker(self.context)

    @classmethod
    def of(cls, context: Context) -> Self:
        """Return an app that shares the context of another one, or of a pipeline."""
        app = cls.__new__(cls)
        app.context, app._ticker = context, Ticker(context)
        return app

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without connections, threads and worker state, for other processes such as those of Spark."""
        return Stanchion.of, (self.context,)

    # -- the store

    @property
    def url(self) -> str:
        """The store's URL. Raises InvalidInput if none was given."""
        return self.context.url

    @property
    def store(self) -> Store:
        """The store, opened and checked on first use."""
        return self.context.store

    def setup(self) -> None:
        """Create or migrate the tables, and store the settings and semaphores of the code. Safe to repeat."""
        self.context.setup()

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction of the store, to pass as `tx`. Raises CannotJoin if the store has none."""
        return self.context.transaction()

    def maintain(self, seconds: float = 60.0) -> Maintained:
        """Maintain the store once, as workers do all the time; for programs without workers.

        Takes back lost jobs, completes the outbox of dead processes, purges history, for about `seconds` at most.
        """
        return self.context.upkeep.round(seconds_of(seconds, "seconds"), self.store.now())

    def close(self) -> None:
        """Release connections and threads; a later call reopens them. Pending waits end with an error."""
        self.context.close()

    # -- queues and limits

    def queue(self, name: str, **settings: Any) -> Queue:
        """Return a queue. Settings given here are stored when this process first uses it, or by `setup`.

        Settings of several calls are merged. An operator's change stays until the code declares another value.
        """
        return declared_queue(self.context, name, settings)

    def queues(self) -> list[Queue]:
        """Return all queues in the store, by name."""
        return stored_queues(self.context)

    def delete_queue(self, name: str) -> int:
        """Delete a queue by any name, also one that `queue` refuses; return the number of live jobs deleted."""
        return delete_queue(self.context, name)

    def semaphore(self, name: str, capacity: int | None = None) -> Semaphore:
        """Return a semaphore: jobs with `limits=[name]` hold its slots. `capacity`: stored at first use; 0 closes."""
        return declared_semaphore(self.context, name, capacity)

    def semaphores(self) -> list[Semaphore]:
        """Return all semaphores in the store, by name."""
        return [Semaphore(self.context, row.name) for row in self.context.store_semaphores().semaphores()]

    def rate(self, key: str, rate: str | float) -> None:
        """Declare the rate of all jobs with this `rate_key`, such as "20/s"; stored as settings of a queue are."""
        self.context.rates.declare(keyed_rate(key, rate))

    def rates(self) -> list[StoredRate]:
        """Return all declared rates in the store, by name, with those of tasks and queues."""
        return self.context.stored_rates()

    # -- tasks

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self, /, *, name: str | None = None, retry: Retry | None = None, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        **options: Unpack[TaskOptions],
    ) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
        """Register a function as a task, with the defaults of its jobs, and what people are not to see: `hide`.

        `name` defaults to `module.function`. Keep it when the function moves: stored jobs refer to it.
        """

        def register(function: Callable[P, R]) -> Task[P, R]:
            return registered(self.context, function, name, retry, options)

        return register if function is None else register(function)

    @property
    def tasks(self) -> dict[str, Task[..., Any]]:
        """The registered tasks, by name."""
        return cast("dict[str, Task[..., Any]]", self.context.registry.tasks)

    def enqueue(self, task: str, *args: Any, **options: Unpack[EnqueueOptions]) -> JobHandle:
        """Enqueue a call of a task by its name; for keyword arguments of it, use `app.using("name", **options)`."""
        return self.using(task, **options).enqueue(*args)

    aenqueue = off_loop(enqueue)

    def using(self, task: str, **options: Unpack[EnqueueOptions]) -> Enqueuer[...]:
        """Return an enqueuer for a task known only by name."""
        known = self.tasks.get(checked_name(task, "task name"))
        return Enqueuer(self.context, task, options, by_name=True) if known is None else known.using(**options)

    def pipeline(self, name: str, *, keep_entry: bool = True) -> Pipeline:
        """Return a pipeline of stations, created at the first call; its queues are named `name.station`.

        `keep_entry`: an item keeps the payload with which it entered beside the one that stations have made of it, so
        that it can be replayed from its entry.
        """
        return self.pipelines.setdefault(name, Pipeline(self.context, name, run_worker, keep_entry=keep_entry))

    @property
    def pipelines(self) -> dict[str, Pipeline]:
        """The pipelines, by name."""
        return self.context.registry.pipelines

    @property
    def stations(self) -> dict[str, Station]:
        """The stations of all pipelines, by the names of their queues."""
        return cast("dict[str, Station]", self.context.registry.stations)

    # -- topics and schedules

    def topic(self, name: str) -> Topic:
        """Return a topic: each event pushed to it becomes a job for each of its subscriptions."""
        return topic_of(self.context, name)

    def topics(self) -> list[Topic]:
        """Return the topics that have subscriptions, by name."""
        return topics_of(self.context)

    def cron(
        self,
        expression: str,
        /,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: Missed = "skip",
        schedule: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        retry: Retry | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Enqueue a call of the decorated function at each tick of a cron expression.

        Decorates a function, which becomes a task with the options of `task`, or a task. `missed`: what happens to
        ticks that no worker fired within a minute. `args`, `kwargs`: the arguments of each call. `schedule`: its
        name, by default the task's; needed if a task has several.
        """

        def register(function: Callable[P, R]) -> Task[P, R]:
            task, own = on_task(self.context, function, name, retry, options)
            declare(self.context, task, expression, tz, missed, schedule, (args, kwargs or {}), own)
            return task

        return register

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name: those in the store, and those of this app that are not stored yet."""
        return schedules(self.context)

    def schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises InvalidInput if it is unknown."""
        return schedule_named(self.context, checked_name(name, "the name of a schedule"))

    def tick(self) -> int:
        """Enqueue the jobs of all due ticks, as a worker does; return how many. For tests and scripts."""
        return self._ticker.tick().jobs

    # -- jobs

    def get(self, job_id: str) -> Job | None:
        """Return the job, live or finished, or None."""
        return lookup.get(self.context, job_id)

    def find(self, **search: Unpack[Search]) -> list[Job]:
        """Search live and finished jobs of all queues, newest first; see `Queue.find`."""
        return lookup.find(self.context, **search)

    def cancel(self, job_id: str) -> JobState | None:
        """Cancel a job, or ask it to stop if it is running; return its new state, or None if it is unknown."""
        return lookup.cancel(self.context, job_id)

    def retry_job(self, job_id: str) -> Job:
        """Make a dead, cancelled or scheduled job ready now, with its attempts reset."""
        return lookup.retry(self.context, job_id)

    def replay(self, job_ids: Iterable[str]) -> list[Job]:
        """Enqueue copies of finished jobs; each names its origin. Ids not in history are left out."""
        return lookup.replay(self.context, job_ids)

    def watch(
        self,
        queues: Sequence[str] | None = None,
        events: Iterable[str] = KINDS,
        since: str | datetime | None = None,
        **options: Unpack[FeedOptions],
    ) -> Feed:
        """Return a feed of what happens: `for event in app.watch():`, or `async for event in app.watch():`.

        `queues`: names, and patterns such as `mail.*`; None: all. New queues are included. `events`: some of pushed,
        started, finished. `since`: the position of an event or of a feed, to continue there; or a time, as far back as
        history reaches; None: from now on. `task`, `tenant`: only jobs of these. `overlap`, `skew`: see `feed.options`.
        """
        return watch(self.context, queues, events, since, options)

    def settle(self, settlements: Iterable[Settlement], *, tx: Any = None) -> list[JobState | None]:
        """End many reserved jobs together: `app.settle([job.committed(result), other.rolled_back(error="no")])`.

        Returns the state of each job now; None: its lease is lost. With `tx`, all end in that transaction.
        """
        return settle(self.context, settlements, tx)

    asettle = off_loop(settle)

    def reservation(self, job_id: str, token: str) -> Reservation:
        """Return the reservation that another request, process or host made: to end, extend or move the job here.

        Raises LeaseLost if the job is not reserved under this token.
        """
        return reservation(self.context, job_id, token)

    def reservations(self, pairs: Iterable[tuple[str, str]]) -> list[Reservation | None]:
        """Return the reservations made elsewhere with these ids and tokens, in order; None for a lost lease."""
        return reservations(self.context, pairs)

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        """Return all workers, late ones too, and consumers with heartbeats; with `holders`, those of leases too."""
        return self.store.workers(holders=holders)

    def consumer(self, name: str, heartbeat: float | timedelta = 10.0) -> Consumer:
        """Return a consumer for `reserve(holder=...)`, a block in which heartbeats hold what it reserves."""
        return Consumer(self.context, name, heartbeat)

    def alerts(self, limits: Mapping[str, float] | None = None) -> list[Alert]:
        """Return what needs a person, the most urgent first; `limits`: those changed, by name, see `Thresholds`."""
        return list(self.monitor(limits).alerts)

    def monitor(self, limits: Mapping[str, float] | None = None) -> Monitor:
        """Return the live jobs by band and queue, and the alerts, of one bounded reading of the store."""
        return monitor(self.context, limits)

    # -- flows

    def enqueue_flow(self, part: Part | Push, tx: Any = None) -> FlowHandle:
        """Store a flow; with `tx`, in that transaction. Like `part.enqueue(tx)`, but works for a flow without calls."""
        return checked_part(part).enqueue_in(self.context, tx)

    def flow(self, flow_id: str) -> FlowHandle:
        """Return a handle to a flow by its id."""
        return FlowHandle(self.context, flow_id)

    def event_group(
        self, name: str, then: Part | Push | None = None, on_failure: Single | Push | None = None
    ) -> EventGroup:
        """Open a group that takes members until it is closed, or return the existing group of that name.

        `then` runs once all members are done and gets the list of their results; `on_failure` runs if one fails.
        """
        return opened(self.context, name, then, on_failure)

    # -- running and testing

    def run(self, queues: Sequence[str] | None = None, threads: int = 8, **options: Any) -> None:
        """Run a worker in this process until SIGTERM, SIGINT or an exception; see `stanchion.Worker`."""
        run_worker(self.context, queues, threads, **options)

    def drain(self, queues: Sequence[str] | None = None) -> int:
        """Run all due jobs of these queues, by default of all tasks and stations; return the number of attempts."""
        return drained(self.context, self.context.registry.own_queues() if queues is None else named_queues(queues))

    def on(self, event: Event) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register middleware for an event: enqueue, start, success, failure, retry or dead."""
        return self.context.events.on(event)

    @contextmanager
    def testing(self, start: datetime = START) -> Iterator[Clock]:
        """Use a fresh store in memory within the block; its clock begins at `start`, and the test moves it."""
        with self.on_store(store := open_store(url_of_test(start))):
            yield Clock(store)

    @contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Use another store within the block."""
        ticker, self._ticker = self._ticker, Ticker(self.context)
        try:
            with self.context.on_store(store):
                self.tick()  # schedules start when they are first stored
                yield
        finally:
            self._ticker = ticker

    def assert_enqueued(self, task: Task[..., Any] | str, /, *args: Any, **kwargs: Any) -> Job:
        """Return a live job that calls the task with these arguments. Raises AssertionError if there is none."""
        return enqueued(self.context, task, args, kwargs)

    def __repr__(self) -> str:
        return repr(self.context)
