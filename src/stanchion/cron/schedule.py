"""Schedules: calls of tasks by a cron expression, one job per tick.

@app.cron ──a scheduler starts──► active ──pause──► paused ──resume──► active
                                    │
                                    └─no live scheduler announces it─► undeclared ──remove──► deleted
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

from stanchion.context.context import Context
from stanchion.core.checks import brief, checked_name, refuse_unknown, whole
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.functions import redefines
from stanchion.core.ids import new_id
from stanchion.core.names.partition_names import checked_queue
from stanchion.core.times import moment
from stanchion.cron.expression import timetable, zone
from stanchion.cron.plan import KIND, Plan
from stanchion.errors import InvalidInput, StanchionError
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.insert import insert
from stanchion.jobs.options import ENQUEUE_OPTIONS, EnqueueOptions, checked
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.records.values import VersionedValue
from stanchion.tasks.task import Task, registered, work_of

Missed = Literal["skip", "once", "all"]
"""What missed ticks get: nothing, one job for all, or a job for each."""

REFRESH = 60 * SECOND
"""Interval at which a live scheduler announces a schedule of its code."""

UNDECLARED = 3 * REFRESH
"""A schedule no live process has announced for this long is orphaned."""


class Declared(NamedTuple):
    """A schedule declared in code, and its plan before it is stored."""

    name: str
    plan: Plan

    def begun(self, now: int) -> Plan:
        """Return the plan of a schedule that starts now."""
        return self.plan._replace(handled=now, declared_at=now)

    def renewed(self, stored: Plan, now: int) -> Plan:
        """Return the stored plan, updated to the code; if its ticks change, it starts again now."""
        plan = self.plan._replace(
            handled=stored.handled, declared_at=now, last=stored.last, paused=stored.paused, firing=stored.firing
        )
        same = (stored.expression, stored.tz) == (plan.expression, plan.tz)
        return plan if same else plan._replace(handled=now)

    def agrees(self, context: Context, stored: Plan) -> bool:
        """Return whether the stored plan matches the code, comparing encrypted arguments by their content."""
        ours, theirs = self.plan.job.payload, stored.job.payload
        if self.plan[:3] != stored[:3] or self.plan.job != stored.job._replace(payload=ours):
            return False
        try:
            return ours == theirs or bool(context.codec.decode(ours) == context.codec.decode(theirs))
        except StanchionError:  # encrypted with a key that this app no longer has
            return False


def declare(
    context: Context,
    task: Task[..., object],
    expression: str,
    tz: str | ZoneInfo,
    missed: Missed,
    schedule: str | None,
    call: tuple[object, object],
    options: EnqueueOptions,
) -> None:
    """Declare a schedule of calls of this task. Raises InvalidInput for wrong arguments."""
    name = checked_name(task.name if schedule is None else schedule, "the name of a schedule")
    zone_name = zone(getattr(tz, "key", tz)).key
    if not isinstance(expression, str):
        raise InvalidInput(f"a cron expression is text of five fields, such as '0 3 * * *', not {brief(expression)}")
    timetable(expression, zone_name)
    if missed not in get_args(Missed):
        raise InvalidInput(f"missed must be one of {', '.join(get_args(Missed))}, not {missed!r}")
    job = _job(context, task, call, {"max_attempts": task.retry.max_attempts, **work_of(task).options, **options})
    found = Declared(name, Plan(" ".join(expression.split()), zone_name, missed, job))
    other = context.registry.crons.get(name)
    again = other is not None and other.plan.job.task == task.name and redefines(task.function, task.function)
    if other is not None and not again and not other.agrees(context, found.plan):
        raise InvalidInput(f"two schedules are named {name!r}; give one of them schedule=...")
    context.registry.crons[found.name] = found


def _job(
    context: Context, task: Task[..., object], call: tuple[object, object], options: Mapping[str, object]
) -> NewJob:
    refuse_unknown(options, ENQUEUE_OPTIONS)
    rest = dict(options)
    for option in ("run_at", "tx"):
        if rest.pop(option, None) is not None:
            raise InvalidInput(f"a schedule can't take {option}: its ticks decide when, and outside of any transaction")
    if rest.get("on_duplicate") == "raise":
        raise InvalidInput("a schedule can't use on_duplicate='raise', as no caller gets it; use 'return' or 'replace'")
    args, kwargs = call
    if isinstance(args, str) or not isinstance(args, Sequence) or not isinstance(kwargs, Mapping):
        raise InvalidInput("args must be a list of arguments, and kwargs a mapping of keyword arguments")
    work = work_of(task)
    if misfit := work.shape.misfit(args, kwargs):
        raise InvalidInput(f"the arguments don't fit {task.name}{work.signature}: {misfit}; give args= and kwargs=")
    queue = checked_queue(rest.pop("queue", "default"))
    return NewJob(
        "",
        queue,
        work.calls().payload(tuple(args), dict(kwargs)),
        task.name,
        **checked(rest, context.codec, queue=queue, task=task.name, declared=context.declared_rate),
    )


class Schedule:
    """A schedule as it was read from the store.

    `last`: the last tick that got a job. `declared`: whether a live scheduler announces it; otherwise it does not fire.
    """

    def __init__(self, context: Context, name: str, plan: Plan, now: int) -> None:
        self._context, self._plan = context, plan
        self.name = name
        self.expression, self.tz, self.missed = plan.expression, plan.tz, plan.missed
        self.task, self.queue = plan.job.task, plan.job.queue
        self.paused = plan.paused
        self.last = None if plan.last is None else moment(plan.last).astimezone(zone(plan.tz))
        self.declared = abs(now - plan.declared_at) < UNDECLARED
        self._since = max(now, plan.handled)

    def next(self, count: int = 1) -> list[datetime]:
        """Return the next `count` ticks, in the schedule's time zone."""
        whole(count, "count", 1, 10_000)
        ticks = islice(timetable(self.expression, self.tz).after(self._since), count)
        return [moment(tick).astimezone(zone(self.tz)) for tick in ticks]

    def pause(self) -> None:
        """Skip ticks from now on, in every process."""
        self._change(lambda plan, _now: plan._replace(paused=True))

    def resume(self) -> None:
        """Fire ticks again from now on; those skipped meanwhile are not made up for."""
        self._change(
            lambda plan, now: plan._replace(paused=False, handled=max(plan.handled, now)) if plan.paused else plan
        )

    def trigger(self) -> JobHandle:
        """Enqueue its job now, in addition to its ticks; works while the schedule is paused."""
        job = self._plan.job_at(self.name, self._context.store.now(), new_id(), **{"x-cron-triggered": True})
        pushed = insert(self._context, [job])[0]
        return JobHandle(self._context, pushed.id, duplicate=pushed.duplicate)

    def remove(self) -> None:
        """Delete the schedule; its jobs stay. A live scheduler that declares it creates it again."""
        while (value := value_of(self._context, self.name)) is not None:
            if jobs := Plan.of(value.text).jobs(self.name):  # a tick from before
                insert(self._context, jobs)
            if self._context.store.compare_and_set(KIND, self.name, None, value.version):
                return

    apause = off_loop(pause)
    aresume = off_loop(resume)
    atrigger = off_loop(trigger)
    aremove = off_loop(remove)

    def _change(self, change: Callable[[Plan, int], Plan]) -> None:
        while True:
            value, now = value_of(self._context, self.name), self._context.store.now()
            if value is None and self.name not in self._context.registry.crons:
                raise InvalidInput(f"schedule {self.name!r} has been removed")
            plan = self._plan._replace(handled=now) if value is None else Plan.of(value.text)
            changed = change(plan, now)
            if self._context.store.compare_and_set(KIND, self.name, changed.text(), value.version if value else 0):
                self._plan, self.paused = changed, changed.paused
                return

    def __repr__(self) -> str:
        return f"<Schedule {self.name} {self.expression!r} {self.tz}>"


def schedules(context: Context) -> list[Schedule]:
    """Return the stored schedules, and schedules of the code that are not stored yet, by name."""
    plans = {name: one.plan for name, one in context.registry.crons.items()}
    plans |= {value.name: Plan.of(value.text) for value in context.store.values(KIND)}
    now = context.store.now()
    return [Schedule(context, name, plans[name], now) for name in sorted(plans)]


def schedule_named(context: Context, name: str) -> Schedule:
    """Return one schedule. Raises InvalidInput if it is unknown."""
    known = {one.name: one for one in schedules(context)}
    if name not in known:
        raise InvalidInput(f"no schedule {name!r} (known: {', '.join(known) or 'none'})")
    return known[name]


def value_of(context: Context, name: str) -> VersionedValue | None:
    """Return the versioned value of a schedule."""
    return next(iter(context.store.values(KIND, [name])), None)


def on_task(
    context: Context, function: Callable[..., object], name: str | None, retry: object, options: EnqueueOptions
) -> tuple[Task[..., object], EnqueueOptions]:
    """Return the task of a decorated function or task, and the options of the schedule itself."""
    if not isinstance(function, Task):
        return registered(context, function, name, retry, options), EnqueueOptions()
    if name is not None or retry is not None:
        raise InvalidInput(f"{function.name} is a task already; pass name= and retry= to its @app.task")
    return function, options
