"""The app: one store, its queues and its tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, Unpack, cast, overload
from zoneinfo import ZoneInfo

from stanchion.context.declared import DeclaredQueues
from stanchion.context.lanes import LaneChooser
from stanchion.context.semaphores import DeclaredSemaphores
from stanchion.context.settings import checked_settings
from stanchion.context.testing import Clock, tested
from stanchion.core.aio import calls_pool, off_loop
from stanchion.core.checks import checked_id, checked_ids, checked_name, seconds_of, shown
from stanchion.core.codec import MAX_PAYLOAD, Codec
from stanchion.core.events import Event, Listeners
from stanchion.core.ids import new_id, new_ids
from stanchion.core.retry import Retry
from stanchion.cron.schedule import Declared, Missed, Schedule, declared, on_task, schedule_named, schedules
from stanchion.cron.ticker import Ticker
from stanchion.errors import InvalidInput, UnknownTask
from stanchion.flows.event_group import EventGroup
from stanchion.flows.handle import FlowHandle
from stanchion.flows.insert import store_flow
from stanchion.flows.parts import Part, Signature, checked_part
from stanchion.flows.plan import Planner, fresh_ids
from stanchion.jobs.call import COLLECT, arguments
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.lookup import jobs_of, redriven_or_raise
from stanchion.jobs.options import EnqueueOptions, named_queues
from stanchion.jobs.search import Search, query_of
from stanchion.jobs.unknown_work import A_DAY, UnknownWork
from stanchion.jobs.upkeep import Maintained, Upkeep
from stanchion.pipelines import Pipeline, Station
from stanchion.queues.queue import Queue
from stanchion.queues.semaphore import Semaphore
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import absolute_url, open_store, shown_url
from stanchion.stores.rules.jobs import state_of
from stanchion.tasks.enqueuer import Enqueuer
from stanchion.tasks.execution import lost_lease_delay
from stanchion.tasks.inline import drained, enqueued
from stanchion.tasks.task import Task, task_options
from stanchion.waits import Waits

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_POLL = 0.5
"""Seconds between the polls of the whole fleet; each worker's own interval is this times the live workers."""


class Stanchion:
    """One store, its queues and its tasks.

    `url`: where jobs live, such as `sqlite:///jobs.db`, `postgresql://user@host/db` or `memory://`; left out,
    STANCHION_URL. Nothing connects before the first use. `keys`: Fernet keys, newest first, to encrypt
    payloads and results. `max_payload`: the largest payload in bytes. `poll`: seconds between polls of all
    workers together, the wake-up of last resort. `bury_unknown_after`: seconds that a job whose task no worker
    knows is put off before it is dead.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        store: Store | None = None,
        keys: Sequence[str | bytes] = (),
        max_payload: int = MAX_PAYLOAD,
        poll: float = DEFAULT_POLL,
        bury_unknown_after: float | timedelta = A_DAY,
    ) -> None:
        if url is not None and not isinstance(url, str):
            raise InvalidInput(f"the URL of a store is text, such as 'sqlite:///jobs.db', not {shown(url)}")
        self._url = url
        self._store = None if store is None else self._with_delays(store)
        self._opening = threading.Lock()
        self._declared = DeclaredQueues()
        self._semaphores = DeclaredSemaphores()
        self.codec = Codec(keys, max_payload)
        self.retry = Retry()
        self.poll = poll
        self.events = Listeners()
        self.unknown_work = UnknownWork(bury_unknown_after)
        self.lanes = LaneChooser(self)
        self.tasks: dict[str, Task[..., Any]] = {}
        self.crons: dict[str, Declared] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.stations: dict[str, Station] = {}
        """The stations of all pipelines, by the names of their queues."""
        self.calls = calls_pool()
        """The threads in which coroutines call the store."""
        self.waits = Waits(self)
        """Those who wait for jobs and results."""
        self.upkeep = Upkeep(self)
        self._ticker = Ticker(self)
        self._collect = Task(self, _same, COLLECT, self.retry, {})

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to other processes, such as those of Spark, without connections, threads and what only workers need."""
        kept = ("codec", "retry", "events", "unknown_work", "tasks", "pipelines", "stations", "poll", "_declared")
        return Stanchion, (absolute_url(self.url),), {name: self.__dict__[name] for name in kept}

    # -- the store

    @property
    def url(self) -> str:
        """The store's URL; InvalidInput when none was given."""
        url = self._url or os.environ.get("STANCHION_URL")
        if not url:
            raise InvalidInput("no store: pass a URL, such as Stanchion('sqlite:///jobs.db'), or set STANCHION_URL")
        return url

    @property
    def store(self) -> Store:
        """The store, opened and checked on first use."""
        if self._store is None:
            with self._opening:
                if self._store is None:
                    store = open_store(self.url)
                    store.check()
                    self._store = self._with_delays(store)
        return self._store

    def _with_delays(self, store: Store) -> Store:
        """Have jobs wait after lost leases as the retry policies of their tasks say."""
        store.lost_lease_delay = partial(lost_lease_delay, self)
        return store

    def setup(self) -> None:
        """Make the tables, or bring them up to date, and store what the code declares of queues and semaphores.

        Safe to repeat. SQLite makes its tables by itself on first use.
        """
        store = self._store or open_store(self.url)
        try:
            store.setup()
            self._semaphores.store(store)
            self._declared.store(store, self._declared)
        finally:
            if store is not self._store:
                store.close()

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction of the store to be passed as `tx`; CannotJoin where the store has none."""
        return self.store.transaction()

    def maintain(self, seconds: float = 60.0) -> Maintained:
        """Look after the store once, as workers do all the time: for programs that have none.

        Takes back the jobs of dead workers and of leases that ran out, finishes what died half-way, purges history, for
        about so many seconds at most.
        """
        return self.upkeep.round(seconds_of(seconds, "seconds"), self.store.now())

    def close(self) -> None:
        """Release connections and threads; a later call opens them anew. Who waits gets an error."""
        self.waits.close()
        self.calls.close()
        if self._store is not None:
            self._store.close()

    # -- queues

    def queue(self, name: str, **settings: Any) -> Queue:
        """Return a queue. Settings given here are stored at its first use by this process, or by `setup`.

        Those of several calls add up. Where they were declared like this before, what is in force now stays.
        """
        if settings:
            self._declared.declare(name, checked_settings(settings))
        return Queue(self, name)

    def queues(self) -> list[Queue]:
        """Return all queues that the store knows, by name."""
        return [Queue(self, settings.name) for settings in self.store.queues()]

    def declare(self, queue: str, tx: Any = None) -> None:
        """Store the settings that the code gave for a queue, and the semaphores that it declares, where they are new.

        For that of a station, also those of the other stations, as its items go on to them.
        """
        self.store_semaphores(tx)
        station = self.stations.get(queue)
        if self._declared.store(self.store, [queue] if station is None else station.pipeline.queues, tx):
            self.lanes.forget()

    def keep_declared(self) -> None:
        """Look now and then what has become of the settings that the code declares; see `DeclaredQueues.keep`."""
        if self._declared.keep(self.store):
            self.lanes.forget()

    # -- semaphores

    def semaphore(self, name: str, capacity: int | None = None) -> Semaphore:
        """Return a semaphore. A capacity given here is stored at the first use by this process.

        Jobs hold it while they run when enqueued with `limits=[name]`. Capacity 0 closes it.
        """
        semaphore = Semaphore(self, name)
        if capacity is not None:
            self._semaphores.declare(semaphore.name, capacity)
        return semaphore

    def semaphores(self) -> list[Semaphore]:
        """Return all semaphores that the store knows, by name."""
        return [Semaphore(self, row.name) for row in self.store_semaphores().semaphores()]

    def store_semaphores(self, tx: Any = None) -> Store:
        """Store the semaphores that the code declares, where they are new; return the store."""
        return self._semaphores.store(self.store, tx)

    # -- tasks

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
        """Register a function as a task, with the defaults of its jobs.

        `name` defaults to `module.function`; keep it when the function moves, as stored jobs know it by name.
        """

        def register(function: Callable[P, R]) -> Task[P, R]:
            if isinstance(function, Task):
                raise InvalidInput(f"{function.name} is a task already; @app.cron stands above @app.task")
            if not callable(function):
                raise InvalidInput(f"a task is made of a function, not of {shown(function)}")
            policy, rest = task_options({"retry": retry, **options})
            known_as = name or f"{function.__module__}.{function.__qualname__}"
            task = Task(self, function, known_as, policy, rest)
            other = self.tasks.setdefault(known_as, task)
            if other is not task and other.function.__code__ is not getattr(function, "__code__", None):
                raise InvalidInput(f"two tasks are named {known_as!r}; give one of them name=...")
            return task

        return register if function is None else register(function)

    def task_named(self, name: str | None) -> Task[..., Any]:
        """Return a registered task; UnknownTask otherwise."""
        task = self.tasks.get(cast(str, name))
        if name == COLLECT:
            return self._collect
        if task is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(
                f"no task {name!r} is registered in this process (registered: {known}); "
                f"import the module that defines it, or keep the old name with @app.task(name=...)"
            )
        return task

    def enqueue(self, task: str, *args: Any, **options: Unpack[EnqueueOptions]) -> JobHandle:
        """Enqueue a call of a task known only by name.

        For keyword arguments of the task, `app.using("name", **options).enqueue(*args, **kwargs)`.
        """
        return self.using(task, **options).enqueue(*args)

    aenqueue = off_loop(enqueue)

    def using(self, task: str, **options: Unpack[EnqueueOptions]) -> Enqueuer[...]:
        """Return an enqueuer for a task known only by name."""
        known = self.tasks.get(checked_name(task, "task name"))
        return known.using(**options) if known is not None else Enqueuer(self, task, options)

    def pipeline(self, name: str) -> Pipeline:
        """Return a pipeline of stations, made at the first call; its queues are named `name.station`."""
        return self.pipelines.setdefault(name, Pipeline(self, name))

    # -- schedules

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
        """Have a function called by the calendar: at each tick of a cron expression a worker enqueues one job.

        Stands above a function, which becomes a task, with the options of `task`, or above a task. `missed`: what
        becomes of ticks for which no worker was there within a minute. `args`, `kwargs`: of each call. `schedule`:
        its name, that of the task unless it has several.
        """

        def register(function: Callable[P, R]) -> Task[P, R]:
            task, own = on_task(self, function, name, retry, options)
            found = declared(self, task, expression, tz, missed, schedule, (args, kwargs or {}), own)
            self.crons[found.name] = found
            return task

        return register

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name: those in the store, and those of this app that no worker has stored yet."""
        return schedules(self)

    def schedule(self, name: str) -> Schedule:
        """Return a schedule; InvalidInput for one that is not known."""
        return schedule_named(self, checked_name(name, "the name of a schedule"))

    def tick(self) -> int:
        """Enqueue the jobs of all ticks that are due, as a worker does; return how many. For tests and scripts."""
        return self._ticker.tick().jobs

    # -- jobs

    def make_ready(self, new: list[NewJob], tx: Any = None) -> None:
        """Store the settings that the code gave for the queues of new jobs; check their limits; give them lanes.

        Items that come to a station get its limits.
        """
        if self._declared:
            for queue in () if self._declared.is_stored(self.store) else {job.queue for job in new}:
                self.declare(queue, tx)
            if tx is None:
                self.keep_declared()
        if self.stations:
            new[:] = [self.stations[job.queue].fitted(job) if job.queue in self.stations else job for job in new]
        self.check_limits(new, tx)
        self.lanes.assign(new)

    def store_new(self, new: list[NewJob], tx: Any = None) -> list[Pushed]:
        """Store jobs, to which it gives their lanes, and fire the event for those that were new."""
        self.make_ready(new, tx)
        stored = self.store.push(new, tx)
        if self.events.hears("enqueue"):
            for job in jobs_of(self, new, stored):
                if not job.duplicate:
                    self.events.fire("enqueue", job)
        return stored

    def check_limits(self, new: Iterable[NewJob], tx: Any = None) -> None:
        """Refuse jobs that need a semaphore which nobody has declared."""
        self._semaphores.check(new, self.store, tx)

    def job_of(self, row: JobRow, *, duplicate: bool = False) -> Job:
        """Return a stored row as a job."""
        return Job(self, row, state_of(row, self.store.now()), duplicate=duplicate)

    def get(self, job_id: str) -> Job | None:
        """Return the job, live or finished, or None."""
        row = self.store.fetch([checked_id(job_id)]).get(job_id)
        return None if row is None else self.job_of(row)

    def find(self, **search: Unpack[Search]) -> list[Job]:
        """Search live and finished jobs of all queues, newest first; see `Queue.find`."""
        now = self.store.now()
        return [Job(self, row, state_of(row, now)) for row in self.store.find(query_of(search))]

    def cancel(self, job_id: str) -> JobState | None:
        """Cancel a job, or ask it to stop if it runs; return its state after that, None if unknown."""
        return self.store.cancel([checked_id(job_id)])[0]

    def retry_job(self, job_id: str) -> Job:
        """Make a dead, cancelled or scheduled job ready now, with all attempts before it."""
        verdict = self.store.retry([checked_id(job_id)])[0]
        row = self.store.fetch([job_id]).get(job_id)
        redriven_or_raise(job_id, verdict, row)
        assert row is not None  # noqa: S101 - it has just been re-driven
        return self.job_of(row)

    def replay(self, job_ids: Iterable[str]) -> list[Job]:
        """Enqueue copies of finished jobs; each names its origin. Ids not in history are left out."""
        origins = checked_ids(job_ids)
        copies = self.store.replay(origins, new_ids(len(origins)))
        rows = self.store.fetch([copy.id for copy in copies if copy is not None])
        return [self.job_of(rows[copy.id]) for copy in copies if copy is not None and copy.id in rows]

    def workers(self) -> list[WorkerRow]:
        """Return the workers that the store knows, also those that are late."""
        return self.store.workers()

    # -- flows

    def enqueue_flow(self, part: Part, tx: Any = None) -> FlowHandle:
        """Store a flow; with `tx`, in that transaction. The same as `part.enqueue(tx)`, also where it has no call."""
        plan = Planner(self, new_id(), fresh_ids())
        plan.flow(checked_part(part))
        store_flow(self, plan, tx)
        return FlowHandle(self, plan.root)

    def flow(self, flow_id: str) -> FlowHandle:
        """Return a handle to a flow by its id."""
        return FlowHandle(self, flow_id)

    def event_group(self, name: str, then: Part | None = None, on_failure: Signature | None = None) -> EventGroup:
        """Open a group that takes members until it is closed; or return it, where one of that name is open already.

        `then` follows once all members are done, and gets the list of their results; `on_failure` when one fails.
        """
        events = EventGroup(self, name)
        events.open(then, on_failure)
        return events

    # -- running

    def run(self, queues: Sequence[str] | None = None, threads: int = 8, **options: Any) -> None:
        """Run a worker in this process until SIGTERM, SIGINT or an exception; see `stanchion.Worker`."""
        from stanchion.worker import Worker  # the one upward arrow: a convenience over Worker

        Worker(self, queues=queues, threads=threads, **options).run()

    def drain(self, queues: Sequence[str] | None = None) -> int:
        """Run all that is due, here and now, in this thread; return how many attempts that were.

        `queues`: their names; None for those of the registered tasks and stations. Jobs in other queues, such as those
        of another program that shares the store, stay as they are.
        """
        return drained(self, named_queues(queues) if queues is not None else self.own_queues())

    def own_queues(self) -> list[str]:
        """Return the queues of the registered tasks, and of the stations that workers can run."""
        stations = {name for name, station in self.stations.items() if station.on_workers}
        return sorted(stations.union(task.queue for task in self.tasks.values()))

    def is_async(self, row: JobRow) -> bool:
        """Tell whether a job is run on an event loop."""
        work = self.stations.get(row.queue) if row.task is None else self.tasks.get(row.task)
        return work is not None and work.is_async

    def on(self, event: Event) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register middleware for an event: enqueue, start, success, failure, retry or dead."""
        return self.events.on(event)

    # -- testing

    def testing(self) -> AbstractContextManager[Clock]:
        """Work on a fresh store in memory, under a clock that the test moves, for the length of the block."""
        return tested(self)

    @contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Work on another store for the length of the block."""
        before, self._store = self._store, self._with_delays(store)
        ticker, self._ticker = self._ticker, Ticker(self)
        waits, self.waits = self.waits, Waits(self)
        self.tick()  # schedules begin when they are first seen
        try:
            yield
        finally:
            self.waits.close()
            self._store, self._ticker, self.waits = before, ticker, waits

    def assert_enqueued(self, task: Task[..., Any] | str, *args: Any, **kwargs: Any) -> Job:
        """Return a live job that calls the task with these arguments; AssertionError when there is none."""
        name = task.name if isinstance(task, Task) else checked_name(task, "task name")
        return enqueued(self, name, arguments(args, kwargs))

    def __repr__(self) -> str:
        return f"<Stanchion {shown_url(self._url) if self._url else self._store}>"


def _same(value: Any) -> Any:
    return value
