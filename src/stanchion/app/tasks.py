"""The calls of an app that register tasks, schedules and stations, and enqueue calls by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, overload

from stanchion.app.area import Area
from stanchion.core.aio import off_loop
from stanchion.core.checks import checked_name
from stanchion.tasks.enqueuer import Enqueuer
from stanchion.tasks.middleware import AnyMiddleware
from stanchion.tasks.task import Task, TaskOptions, registered

if TYPE_CHECKING:  # imported at first use, so that a program loads only what it uses
    from zoneinfo import ZoneInfo

    from stanchion.core.events import Event
    from stanchion.core.retry import Retry
    from stanchion.cron.schedule import Missed, Schedule
    from stanchion.jobs.handle import JobHandle
    from stanchion.jobs.options import EnqueueOptions
    from stanchion.pipelines import Pipeline, Station

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=AnyMiddleware)


class TaskCalls(Area):
    """Tasks, schedules, pipelines, and listeners."""

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
        from stanchion.pipelines import Pipeline
        from stanchion.worker.worker import run_worker

        return self.pipelines.setdefault(name, Pipeline(self.context, name, run_worker, keep_entry=keep_entry))

    @property
    def pipelines(self) -> dict[str, Pipeline]:
        """The pipelines, by name."""
        return self.context.registry.pipelines

    @property
    def stations(self) -> dict[str, Station]:
        """The stations of all pipelines, by the names of their queues."""
        return cast("dict[str, Station]", self.context.registry.stations)

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
        from stanchion.cron.schedule import declare, on_task

        def register(function: Callable[P, R]) -> Task[P, R]:
            task, own = on_task(self.context, function, name, retry, options)
            declare(self.context, task, expression, tz, missed, schedule, (args, kwargs or {}), own)
            return task

        return register

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name: those in the store, and those of this app that are not stored yet."""
        from stanchion.cron.schedule import schedules

        return schedules(self.context)

    def schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises InvalidInput if it is unknown."""
        from stanchion.cron.schedule import schedule_named

        return schedule_named(self.context, checked_name(name, "the name of a schedule"))

    aschedules = off_loop(schedules)
    aschedule = off_loop(schedule)

    def middleware(self, middleware: M) -> M:
        """Register middleware: it runs around each attempt, inside of what was registered before.

        `def around(attempt, call_next)` is for sync tasks, `async def` for async ones; an object with the methods `run`
        and `arun` is for both. `call_next()` runs the rest and returns the result of the task. See `Attempt`.
        """
        self.context.middleware.add(middleware)
        return middleware

    def on(self, event: Event) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a listener for an event: pushed, started, done, failed, retrying or dead."""
        return self.context.events.on(event)
