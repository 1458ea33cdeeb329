"""Middleware: runs around each attempt, between the worker and the task.

attempt ──► first ──call_next()──► second ──call_next()──► the task
        ◄──result, or error──      ◄──────────────────────
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from stanchion.context.work import Work
from stanchion.core.text.tracebacks import begins_task
from stanchion.errors import InvalidInput
from stanchion.jobs.reservation import Reservation

CallNext = Callable[[], Any]
"""Runs the rest of an attempt, and returns the result of the task."""

AsyncCallNext = Callable[[], Awaitable[Any]]


class _Call(Protocol):
    args: list[object]
    kwargs: dict[str, object]

    @property
    def work(self) -> Work: ...
    @property
    def job(self) -> Reservation | None: ...
    @property
    def jobs(self) -> list[Reservation]: ...


class Attempt:
    """One attempt at a job, or at the jobs of a batch, as middleware sees it.

    `args` and `kwargs` are the arguments of the call, which middleware may change before it calls the rest.
    """

    __slots__ = ("_call",)

    def __init__(self, call: _Call) -> None:
        self._call = call

    @property
    def job(self) -> Reservation:
        """The running job. Raises InvalidInput for a batch, which has several: see `jobs`."""
        if (job := self._call.job) is None:
            raise InvalidInput(f"an attempt at the batch task {self.task!r} has several jobs: use attempt.jobs")
        return job

    @property
    def jobs(self) -> list[Reservation]:
        """The running jobs: those of a batch in the order of its items, else the only one."""
        return self._call.jobs

    @property
    def is_batch(self) -> bool:
        """Whether the task takes batches: `jobs` may have several."""
        return self._call.job is None

    @property
    def task(self) -> str:
        """The name of the task; of a station, the name of its queue."""
        return self._call.work.name

    @property
    def function(self) -> Callable[..., Any]:
        """The function that the attempt calls."""
        return self._call.work.function

    @property
    def args(self) -> list[Any]:
        """The positional arguments of the call."""
        return self._call.args

    @args.setter
    def args(self, args: Sequence[object]) -> None:
        self._call.args = list(args)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the call."""
        return self._call.kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, object]) -> None:
        self._call.kwargs = dict(kwargs)

    def __repr__(self) -> str:
        if (job := self._call.job) is None:
            return f"<Attempt at {len(self.jobs)} jobs of {self.task}>"
        return f"<Attempt {job.attempt} at {self.task} {job.id}>"


class BothKinds(Protocol):
    """Middleware for sync and async tasks."""

    def run(self, attempt: Attempt, call_next: CallNext, /) -> object: ...
    async def arun(self, attempt: Attempt, call_next: AsyncCallNext, /) -> object: ...


AnyMiddleware = (
    Callable[[Attempt, CallNext], object] | Callable[[Attempt, AsyncCallNext], Awaitable[object]] | BothKinds
)


def run_within(middleware: Sequence[Callable[..., object]], attempt: Attempt, call: CallNext) -> object:
    """Call a sync task within its middleware."""

    def step(place: int) -> object:
        if place == len(middleware):
            return call()
        return middleware[place](attempt, partial(step, place + 1))

    return step(0)


async def arun_within(middleware: Sequence[Callable[..., Any]], attempt: Attempt, call: AsyncCallNext) -> object:
    """Call an async task within its middleware."""

    async def step(place: int) -> object:
        if place == len(middleware):
            return await _awaited(call)
        return await middleware[place](attempt, partial(step, place + 1))

    return await step(0)


@begins_task
async def _awaited(call: AsyncCallNext) -> object:
    return await call()
