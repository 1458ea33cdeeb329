"""The tasks of a reusable package: declared before there is an app, and registered on one later.

tasks = Tasks()        @tasks.task declares ──► a task that can be called, and can't be enqueued yet
app.register(tasks) ──► the same task, with a name of this app; later declarations are registered immediately
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from weakref import ref

from stanchion.app.decorators import Decorators, Ticks
from stanchion.context.context import Context
from stanchion.context.unknown_work import UnknownWork
from stanchion.core.checks import checked_name
from stanchion.core.functions import Hooks, Listeners, Middleware, is_async
from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput
from stanchion.jobs import lookup
from stanchion.jobs.options import keyed_rate
from stanchion.tasks.middleware import Attempt
from stanchion.tasks.task import Task, registered, works

if TYPE_CHECKING:
    from stanchion.core.functions import Event, Per, When
    from stanchion.core.retry import Retry
    from stanchion.jobs.options import EnqueueOptions
    from stanchion.stores.protocol import Store


class Mount(NamedTuple):
    """One registration on an app. `names`: of the tasks there."""

    context: Context
    prefix: str
    queue: str | None
    names: set[str]

    def name(self, own: str) -> str:
        """Return the name of a task or schedule in the app."""
        return f"{self.prefix}.{own}" if self.prefix else own


class Tasks(Decorators):
    """Tasks, schedules, middleware, listeners and hooks of a reusable package, to register on an app.

    Middleware and listeners concern these tasks only. A task enqueues to the app that registered it last.
    """

    def __init__(self) -> None:
        self._context = _Unregistered()
        self._declared: list[Callable[[Mount], None]] = []
        self._own_names: dict[Task[..., object], str] = {}
        self._mounts: list[Callable[[], Mount | None]] = []

    def rate(self, key: str, rate: str | float) -> None:
        """Declare the rate of all jobs with this `rate_key`, such as "20/s", as an app does."""
        declared = keyed_rate(key, rate)
        self._context.rates.declare(declared)
        self._declare(lambda mount: mount.context.rates.declare(declared))

    def _declare(self, declare: Callable[[Mount], None]) -> None:
        for find in self._mounts:
            if (mount := find()) is not None:
                declare(mount)
        self._declared.append(declare)

    def _add_task(
        self, function: Callable[..., object], *, name: str | None = None, retry: Retry | None = None, **options: object
    ) -> Task[..., object]:
        task = registered(self._context, function, name, retry, options)
        own_name = self._own_names[task] = task.name

        def declare(mount: Mount) -> None:
            given = options if mount.queue is None else {"queue": mount.queue, **options}
            of_app = registered(mount.context, function, mount.name(own_name), retry, given)
            mount.names.add(of_app.name)
            task.__dict__.update(of_app.__dict__)

        self._declare(declare)
        return task

    def _add_cron(
        self,
        function: Callable[..., object],
        ticks: Ticks,
        name: str | None,
        retry: Retry | None,
        options: EnqueueOptions,
    ) -> Task[..., object]:
        if isinstance(function, Task):
            task: Task[..., object] = function
            if name is not None or retry is not None:
                raise InvalidInput(f"{task.name} is a task already; pass name= and retry= to its decorator")
            if task not in self._own_names:
                raise InvalidInput(f"{task.name} is a task of something else; declare its schedule there")
            own = options
        else:
            task, own = self._add_task(function, name=name, retry=retry, **options), {}
        own_name = self._own_names[task]

        def declare(mount: Mount) -> None:
            from stanchion.cron import schedule as crons

            of_app = works(mount.context)[mount.name(own_name)].task
            schedule = None if ticks.schedule is None else mount.name(ticks.schedule)
            crons.declare(
                *(mount.context, of_app, ticks.expression, ticks.tz, ticks.missed, schedule),
                *((ticks.args, ticks.kwargs), own),
            )

        self._declare(declare)
        return task

    def _add_middleware(self, middleware: object) -> None:
        Middleware().add(middleware)  # raises what an app would raise
        self._declare(lambda mount: mount.context.middleware.add(_around(middleware, mount.names)))

    def _add_listener(self, event: Event, listener: Callable[..., object]) -> None:
        Listeners().on(event)(listener)
        self._declare(lambda mount: _listen(mount, event, listener))

    def _add_hook(self, when: When, per: Per, function: Callable[[], object]) -> None:
        Hooks().add(when, per, function)
        self._declare(lambda mount: mount.context.hooks.add(when, per, function))


def register(tasks: object, context: Context, prefix: Any, queue: str | None) -> None:
    """Register all declarations of a `Tasks`, later ones too; see `Stanchion.register`."""
    its = _checked(tasks, prefix)
    if any(mount is not None and mount.context is context for mount in (find() for find in its._mounts)):
        raise InvalidInput("these tasks are registered on this app already")
    names: set[str] = set()
    known = ref(context)

    def find() -> Mount | None:  # the app of a test may be gone
        found = known()
        return None if found is None else Mount(found, prefix, queue, names)

    for declare in its._declared:
        declare(Mount(context, prefix, queue, names))
    its._mounts.append(find)


def _checked(tasks: object, prefix: object) -> Tasks:
    """Return a `Tasks`. Raises InvalidInput for anything else, or for a prefix that is no name."""
    if not isinstance(tasks, Tasks):
        raise InvalidInput(f"register takes a Tasks(), not {tasks!r}; for modules of tasks, use app.include()")
    if prefix != "":
        checked_name(prefix, "the prefix of tasks")
    return tasks


class _OfTasks:
    """Sync middleware, for attempts at these tasks only."""

    def __init__(self, middleware: Callable[..., Any], names: set[str]) -> None:
        self._middleware, self._names = middleware, names

    def __call__(self, attempt: Attempt, call_next: Callable[[], Any]) -> object:
        return self._middleware(attempt, call_next) if attempt.task in self._names else call_next()


class _OfAsyncTasks(_OfTasks):
    """Async middleware, for attempts at these tasks only."""

    async def __call__(self, attempt: Attempt, call_next: Callable[[], Awaitable[object]]) -> object:
        return await (self._middleware(attempt, call_next) if attempt.task in self._names else call_next())


class _OfBothKinds:
    def __init__(self, middleware: Any, names: set[str]) -> None:
        self.run, self.arun = _OfTasks(middleware.run, names), _OfAsyncTasks(middleware.arun, names)


def _around(middleware: Any, names: set[str]) -> object:
    if hasattr(middleware, "run") and hasattr(middleware, "arun"):
        return _OfBothKinds(middleware, names)
    return _OfAsyncTasks(middleware, names) if is_async(middleware) else _OfTasks(middleware, names)


def _listen(mount: Mount, event: Event, listener: Callable[..., Any]) -> None:
    def of_tasks(job: Any, *error: object) -> None:
        if job.task in mount.names:
            listener(job, *error)

    mount.context.events.on(event)(of_tasks)


class _Unregistered(Context):
    """The context of tasks that no app has registered: it has no store, and encodes no call."""

    def __init__(self) -> None:
        super().__init__(None, None, _NoCodec(), 0.5, UnknownWork(), lookup.job_of)
        self.decode = _refuse  # an app that registers the tasks may know the types of their parameters

    def _opened(self) -> Store:
        _refuse()


class _NoCodec(Codec):
    def encode(self, *_: object, **__: object) -> str:
        _refuse()


def _refuse(*_: object) -> NoReturn:
    raise InvalidInput(
        "no app has registered this task yet: call app.register(tasks) first, and make using(...) and s(...) of its "
        "tasks after that"
    )
