"""`@app.task`: the decorator that makes a function a task, typed for each kind of function.

A task's type has the parameters of its calls, without a first parameter that is the job, and its result, which is the
awaited value of an async function. Called directly, the task has the type of its function. The overloads are tried
in order:

    the first parameter takes anything    pyright knows the result only; mypy knows neither parameters nor result
    anything is returned                  else the function would count as async
    the first parameter is the job        enqueue, using, s and si leave it out
    any other function                    as it is

With `batch=`, the function takes a list of items, a call one item, and the result is an element of what is returned:

    None is returned                      the result is None
    a list is returned                    of results, and errors or outcomes of single jobs
    a list of the jobs is taken, too      calls leave it out
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from stanchion.tasks.task import Task, TaskFunction, TaskOptions

if TYPE_CHECKING:
    from datetime import timedelta

    from stanchion.core.retry import Retry
    from stanchion.jobs.job import Job
    from stanchion.jobs.outcome import Bury, Cancel, Outcome, RetryAfter, Snooze
    from stanchion.jobs.reservation import Reservation

P = ParamSpec("P")
R = TypeVar("R")
J = TypeVar("J", "Job", "Reservation", "Job | None", "Reservation | None")
AnyTask = TypeVar("AnyTask", bound=Task[..., object])
Awaited = Coroutine[Any, Any, R]


class _Anything:
    """A class that no function names: only a parameter that takes anything takes it."""


T = TypeVar("T")
K = TypeVar("K", "Job", "Reservation")

if TYPE_CHECKING:
    Each = Sequence[R | BaseException | Exception | Outcome | Snooze | RetryAfter | Cancel | Bury]
    """The results of a batch: of each job, or the error or the outcome that it ends by. pyright takes these classes out
    of a union of results, but no class that is derived from them."""


class BatchDecorator(Protocol):
    """Registers functions as batch tasks."""

    @overload
    def __call__(
        self, function: Callable[[list[K], list[T]], Awaited[None]], /
    ) -> TaskFunction[[list[K], list[T]], Awaited[None], [T], None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[K], list[T]], Awaited[Each[R]]], /
    ) -> TaskFunction[[list[K], list[T]], Awaited[Each[R]], [T], R]: ...
    @overload
    def __call__(
        self, function: Callable[[list[K], list[T]], None], /
    ) -> TaskFunction[[list[K], list[T]], None, [T], None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[K], list[T]], Each[R]], /
    ) -> TaskFunction[[list[K], list[T]], Each[R], [T], R]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Awaited[None]], /
    ) -> TaskFunction[[list[T]], Awaited[None], [T], None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Awaited[Each[R]]], /
    ) -> TaskFunction[[list[T]], Awaited[Each[R]], [T], R]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], None], /) -> TaskFunction[[list[T]], None, [T], None]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], Each[R]], /) -> TaskFunction[[list[T]], Each[R], [T], R]: ...


class TaskDecorator:
    """Registers functions as tasks. `register`: called with a function and the options of the decorator."""

    def __init__(self, register: Callable[..., Task[..., object]], /, **options: object) -> None:
        self._register, self._options = register, options

    @overload
    def __call__(self, task: AnyTask, /) -> AnyTask: ...  # type: ignore[overload-overlap] # a task is no function
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Anything, P], Awaited[R]], /
    ) -> TaskFunction[..., Awaited[R], ..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[_Anything, P], R], /) -> TaskFunction[..., R, ..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[J, P], _Anything], /
    ) -> TaskFunction[Concatenate[J, P], Any, P, Any]: ...
    @overload
    def __call__(self, function: Callable[P, _Anything], /) -> TaskFunction[P, Any, P, Any]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[J, P], Awaited[R]], /
    ) -> TaskFunction[Concatenate[J, P], Awaited[R], P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[J, P], R], /) -> TaskFunction[Concatenate[J, P], R, P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaited[R]], /) -> TaskFunction[P, Awaited[R], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        batch: int,
        wait: float | timedelta = 0,
        name: str | None = None,
        retry: Retry | None = None,
        **options: Unpack[TaskOptions],
    ) -> BatchDecorator: ...
    @overload
    def __call__(
        self, /, *, name: str | None = None, retry: Retry | None = None, **options: Unpack[TaskOptions]
    ) -> TaskDecorator: ...
    def __call__(self, function: object = None, /, **options: object) -> object:
        """Register a function as a task, or return a decorator with these options."""
        given = {**self._options, **options}
        return TaskDecorator(self._register, **given) if function is None else self._register(function, **given)
