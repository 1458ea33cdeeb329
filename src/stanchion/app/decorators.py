"""The decorators that an app and a `Tasks` have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar, Unpack, overload

from stanchion.tasks.decorator import TaskDecorator
from stanchion.tasks.task import Task

if TYPE_CHECKING:  # imported at first use, so that a program loads only what it uses
    from zoneinfo import ZoneInfo

    from stanchion.core.functions import Event, Per, When
    from stanchion.core.retry import Retry
    from stanchion.cron.schedule import Missed
    from stanchion.jobs.options import EnqueueOptions
    from stanchion.tasks.middleware import AnyMiddleware

H = TypeVar("H", bound=Callable[[], object])
L = TypeVar("L", bound=Callable[..., object])
M = TypeVar("M", bound="AnyMiddleware")


class Ticks(NamedTuple):
    """A schedule as its decorator gets it."""

    expression: str
    tz: str | ZoneInfo
    missed: Missed
    schedule: str | None
    args: Sequence[object]
    kwargs: Mapping[str, object]


class Decorators(ABC):
    """Declares tasks, schedules, middleware, listeners and hooks."""

    @property
    def task(self) -> TaskDecorator:
        """The decorator that registers a function as a task: `@app.task`, or with options `@app.task(queue="mail")`.

        Options: `name`, `retry`, the defaults of its jobs, and the values that people are not to see, `hide`; see
        `TaskOptions`. `name` defaults to `module.function`. Keep it when the function moves: stored jobs refer to it.

        `batch`: a call gets a list of up to so many items, those of jobs that are due or come within `wait` seconds.
        Each job has one item, and ends by itself.
        """
        return TaskDecorator(self._add_task)

    def cron(
        self,
        expression: str,
        /,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: Missed = "skip",
        schedule: str | None = None,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        name: str | None = None,
        retry: Retry | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> TaskDecorator:
        """Enqueue a call of the decorated function at each tick of a cron expression.

        Decorates a function, which becomes a task with the options of `task`, or a task. `missed`: what happens to
        ticks that no worker fired within a minute. `args`, `kwargs`: the arguments of each call. `schedule`: its
        name, by default the task's; needed if a task has several.
        """
        ticks = Ticks(expression, tz, missed, schedule, args, kwargs or {})
        return TaskDecorator(lambda function: self._add_cron(function, ticks, name, retry, options))

    def middleware(self, middleware: M) -> M:
        """Register middleware: it runs around each attempt, inside earlier middleware.

        `def around(attempt, call_next)` is for sync tasks, `async def` for async ones; an object with the methods `run`
        and `arun` is for both. `call_next()` runs the rest and returns the result of the task. See `Attempt`.
        """
        self._add_middleware(middleware)
        return middleware

    def on(self, event: Event) -> Callable[[L], L]:
        """Register a listener for an event: pushed, started, done, failed, retrying or dead."""

        def register(listener: L) -> L:
            self._add_listener(event, listener)
            return listener

        return register

    @overload
    def on_worker_start(self, function: H, /) -> H: ...
    @overload
    def on_worker_start(self, /, *, per: Per = "process") -> Callable[[H], H]: ...
    def on_worker_start(self, function: H | None = None, /, *, per: Per = "process") -> H | Callable[[H], H]:
        """Call a function when a worker starts: once in its process, or, `per="thread"`, in each of its threads.

        An async one runs on the event loop of the worker; `per="thread"`: on each loop that it has. If it fails, the
        worker stops.
        """
        return self._hooked("start", per, function)

    @overload
    def on_worker_stop(self, function: H, /) -> H: ...
    @overload
    def on_worker_stop(self, /, *, per: Per = "process") -> Callable[[H], H]: ...
    def on_worker_stop(self, function: H | None = None, /, *, per: Per = "process") -> H | Callable[[H], H]:
        """Call a function when a worker has run its last job; the one that was registered last comes first."""
        return self._hooked("stop", per, function)

    def _hooked(self, when: When, per: Per, function: H | None) -> H | Callable[[H], H]:
        def register(function: H) -> H:
            self._add_hook(when, per, function)
            return function

        return register if function is None else register(function)

    # -- where the declarations go

    @abstractmethod
    def _add_task(
        self, function: Callable[..., object], *, name: str | None = None, retry: Retry | None = None, **options: object
    ) -> Task[..., object]: ...

    @abstractmethod
    def _add_cron(
        self,
        function: Callable[..., object],
        ticks: Ticks,
        name: str | None,
        retry: Retry | None,
        options: EnqueueOptions,
    ) -> Task[..., object]: ...

    @abstractmethod
    def _add_middleware(self, middleware: object) -> None: ...

    @abstractmethod
    def _add_listener(self, event: Event, listener: Callable[..., object]) -> None: ...

    @abstractmethod
    def _add_hook(self, when: When, per: Per, function: Callable[[], object]) -> None: ...
