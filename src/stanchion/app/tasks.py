"""The calls of an app that register tasks, schedules and stations, and enqueue calls by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from stanchion.app.area import Area
from stanchion.core.aio import off_loop
from stanchion.core.checks import checked_name
from stanchion.tasks.decorator import TaskDecorator
from stanchion.tasks.enqueuer import Enqueuer
from stanchion.tasks.task import Task, TaskOptions, registered

if TYPE_CHECKING:  # imported at first use, so that a program loads only what it uses
    from zoneinfo import ZoneInfo

    from stanchion.core.events import Event
    from stanchion.core.retry import Retry
    from stanchion.cron.schedule import Missed, Schedule
    from stanchion.jobs.handle import JobHandle
    from stanchion.jobs.options import EnqueueOptions
    from stanchion.pipelines import Pipeline, Station
    from stanchion.tasks.middleware import AnyMiddleware

M = TypeVar("M", bound="AnyMiddleware")


class TaskCalls(Area):
    """Tasks, schedules, pipelines, and listeners."""

    @property
    def task(self) -> TaskDecorator:
        """The decorator that registers a function as a task: `@app.task`, or with options `@app.task(queue="mail")`.

        Options: `name`, `retry`, the defaults of its jobs, and the values that people are not to see, `hide`; see
        `TaskOptions`. `name` defaults to `module.function`. Keep it when the function moves: stored jobs refer to it.
        """

        def register(
            function: Callable[..., Any],
            *,
            name: str | None = None,
            retry: Retry | None = None,
            **options: Unpack[TaskOptions],
        ) -> Task[..., Any]:
            return registered(self.context, function, name, retry, options)

        return TaskDecorator(register)

    @property
    def tasks(self) -> dict[str, Task[..., Any]]:
        """The registered tasks, by name."""
        self.context.registry.includes.load()
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

        pipelines: dict[str, Pipeline] = self.context.registry.pipelines
        return pipelines.setdefault(name, Pipeline(self.context, name, run_worker, keep_entry=keep_entry))

    @property
    def pipelines(self) -> dict[str, Pipeline]:
        """The pipelines, by name."""
        self.context.registry.includes.load()
        return self.context.registry.pipelines

    @property
    def stations(self) -> dict[str, Station]:
        """The stations of all pipelines, by the names of their queues."""
        self.context.registry.includes.load()
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
    ) -> TaskDecorator:
        """Enqueue a call of the decorated function at each tick of a cron expression.

        Decorates a function, which becomes a task with the options of `task`, or a task. `missed`: what happens to
        ticks that no worker fired within a minute. `args`, `kwargs`: the arguments of each call. `schedule`: its
        name, by default the task's; needed if a task has several.
        """
        from stanchion.cron.schedule import declare, on_task

        def register(function: Callable[..., Any]) -> Task[..., Any]:
            task, own = on_task(self.context, function, name, retry, options)
            declare(self.context, task, expression, tz, missed, schedule, (args, kwargs or {}), own)
            return task

        return TaskDecorator(register)

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name: those in the store, and those of this app that are not stored yet."""
        self.context.registry.includes.load()
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
