"""The calls of an app that register tasks, schedules and stations, and enqueue calls by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from stanchion.app.area import Area
from stanchion.app.decorators import Decorators, Ticks
from stanchion.core.checks import checked_name
from stanchion.core.concurrency.aio import off_loop
from stanchion.tasks.calls import CallMaker
from stanchion.tasks.enqueuer import Enqueuer
from stanchion.tasks.task import Task, registered, works

if TYPE_CHECKING:  # imported at first use, so that a program loads only what it uses
    from stanchion.core.functions import Event, Per, When
    from stanchion.core.retry import Retry
    from stanchion.cron.schedule import Schedule
    from stanchion.jobs.handle import JobHandle
    from stanchion.jobs.options import EnqueueOptions
    from stanchion.pipelines import Pipeline
    from stanchion.pipelines.options import Stored


class TaskCalls(Area, Decorators):
    """Tasks, schedules, pipelines, and listeners."""

    @property
    def tasks(self) -> dict[str, Task[..., Any]]:
        """The registered tasks, by name."""
        self._context.registry.includes.load()
        return {name: one.task for name, one in works(self._context).items()}

    def enqueue(self, task: str, *args: object, **options: Unpack[EnqueueOptions]) -> JobHandle:
        """Enqueue a call of a task by its name; for keyword arguments of it, use `app.using("name", **options)`."""
        return self.using(task, **options).enqueue(*args)

    aenqueue = off_loop(enqueue)

    def using(self, task: str, **options: Unpack[EnqueueOptions]) -> Enqueuer[...]:
        """Return an enqueuer for a task known only by name."""
        self._context.registry.includes.load()
        known = works(self._context).get(checked_name(task, "task name"))
        if known is None:
            return Enqueuer(CallMaker(self._context, task, options, by_name=True))
        return Enqueuer(known.calls(**options))

    def pipeline(self, name: str, *, keep_entry: bool = True, stored: Stored = "needed") -> Pipeline:
        """Return a pipeline of stations, created at the first call; its queues are named `name.station`.

        `keep_entry`: an item keeps its first payload next to the one that stations have made of it, so
        that it can be replayed from its entry. `stored`: "always" stores each item at every station; "needed" lets it
        pass from function to function in memory where no option of a station, and no setting of a queue, forbids it.
        """
        from stanchion.pipelines.pipeline import Pipeline, plan_of
        from stanchion.worker.worker import run_worker

        made = Pipeline(self._context, name, run_worker, keep_entry=keep_entry, stored=stored)
        found: Pipeline = self._context.registry.pipelines.setdefault(name, plan_of(made)).pipeline
        return found

    @property
    def pipelines(self) -> dict[str, Pipeline]:
        """The pipelines, by name."""
        self._context.registry.includes.load()
        return {name: one.pipeline for name, one in self._context.registry.pipelines.items()}

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name: the stored ones, and schedules of this app that are not stored yet."""
        self._context.registry.includes.load()
        from stanchion.cron.schedule import schedules

        return schedules(self._context)

    def schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises InvalidInput if it is unknown."""
        from stanchion.cron.schedule import schedule_named

        return schedule_named(self._context, checked_name(name, "the name of a schedule"))

    aschedules = off_loop(schedules)
    aschedule = off_loop(schedule)

    # -- declarations

    def _add_task(
        self, function: Callable[..., object], *, name: str | None = None, retry: Retry | None = None, **options: object
    ) -> Task[..., object]:
        return registered(self._context, function, name, retry, options)

    def _add_cron(
        self,
        function: Callable[..., object],
        ticks: Ticks,
        name: str | None,
        retry: Retry | None,
        options: EnqueueOptions,
    ) -> Task[..., object]:
        from stanchion.cron.schedule import declare, on_task

        task, own = on_task(self._context, function, name, retry, options)
        declare(self._context, task, *ticks[:4], (ticks.args, ticks.kwargs), own)
        return task

    def _add_middleware(self, middleware: object) -> None:
        self._context.middleware.add(middleware)

    def _add_listener(self, event: Event, listener: Callable[..., object]) -> None:
        self._context.events.on(event)(listener)

    def _add_hook(self, when: When, per: Per, function: Callable[[], object]) -> None:
        self._context.hooks.add(when, per, function)
