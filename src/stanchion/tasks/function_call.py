"""A call of the function of a task or a station: within the middleware, and in its span."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping
from functools import partial
from inspect import Parameter, Signature
from typing import Any

from stanchion.context.context import Context
from stanchion.context.work import Work
from stanchion.core.concurrency.forks import end_child
from stanchion.core.text.tracebacks import begins_task
from stanchion.errors import StanchionError
from stanchion.flows.handle import FlowHandle
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.reservation import Reservation
from stanchion.tasks.coroutines import run_to_end
from stanchion.tasks.current import RUNNING
from stanchion.tasks.middleware import Attempt, arun_within, run_within
from stanchion.tasks.traced import TracedAttempt
from stanchion.telemetry.traces import Traces


class Unrunnable(StanchionError):
    """This code can't run the job, now or on a retry: the job is dead with this error."""


class FunctionCall:
    """A call of the function of a task or a station, within the middleware."""

    __slots__ = ("_context", "args", "kwargs", "traced", "work")

    _context: Context
    work: Work
    args: list[object]
    kwargs: dict[str, object]
    traced: TracedAttempt | None

    @property
    def job(self) -> Reservation | None:
        """The reserved job; None for a batch of jobs."""
        raise NotImplementedError

    @property
    def jobs(self) -> list[Reservation]:
        """The reserved jobs of the call."""
        raise NotImplementedError

    def call(self) -> Any:
        """Run the function, within the middleware; for an async one, return the coroutine.

        In the context variables of this attempt only, where it becomes the current one.
        """
        RUNNING.set(self)
        middleware, call = self._context.middleware, self._called
        if self.work.is_async:
            if middleware.asynchronous:
                call = partial(arun_within, middleware.asynchronous, Attempt(self), call)
        elif middleware.sync:
            call = partial(run_within, middleware.sync, Attempt(self), call)
        if (traces := self._context.traces) is None:
            return call()
        self.traced = self._traced(traces)
        return self.traced.run_async(call) if self.work.is_async else self.traced.run(call)

    def _traced(self, traces: Traces) -> TracedAttempt:
        """Start the span of the call."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise the outcome of a job whose payload does not meet the expectations of the function."""

    def awaited(self, value: Awaitable[object]) -> object:
        """Wait for the awaitable that a call in this thread returned, in a new event loop."""
        return run_to_end(_waited_for(value))

    @begins_task
    def _called(self) -> Any:
        self._check()
        process = os.getpid()
        try:
            value = self.work.function(*self.args, **self.kwargs)
            if os.getpid() != process:
                end_child(None)
            # A plain function around an async one returns an awaitable.
            return self.awaited(value) if _is_awaited(value) and not self.work.is_async else value
        except BaseException as error:
            if os.getpid() != process:
                end_child(error)
            if not isinstance(error, TypeError):
                raise
            # Without a second frame the call failed before the function started: the arguments do not fit.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise Unrunnable(f"the arguments no longer fit {self.work.name}: {error}") from None
            raise

    def _give(self, signature: Signature, given: Mapping[str, object]) -> None:
        """Pass values that no call gives to their parameters, at their positions among the stored arguments."""
        if not given:
            return
        for place, (name, parameter) in enumerate(signature.parameters.items()):
            if name not in given:
                continue
            if parameter.kind is Parameter.KEYWORD_ONLY or place > len(self.args):
                self.kwargs[name] = given[name]
            else:
                self.args.insert(place, given[name])


def _is_awaited(value: object) -> bool:
    """Return whether a plain function's value is to be awaited. A handle is not: its job may need this thread."""
    return hasattr(type(value), "__await__") and not isinstance(value, JobHandle | FlowHandle)


async def _waited_for(value: Awaitable[object]) -> object:
    return await value
