"""Enqueuers: a task with fixed options for its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, overload

from stanchion.core.checks import several
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.types import R_co
from stanchion.errors import InvalidInput
from stanchion.jobs.call import Call, call_of
from stanchion.jobs.handle import JobHandle
from stanchion.jobs.insert import insert
from stanchion.jobs.options import FlowElement

if TYPE_CHECKING:
    from stanchion.flows.parts import Signature
    from stanchion.tasks.calls import CallMaker

P = ParamSpec("P")
Q = ParamSpec("Q")

AnyCall: TypeAlias = "tuple[Any, ...] | Mapping[str, Any] | Signature[Any]"
"""A tuple of arguments, a mapping of keyword arguments, or `task.s(...)`, whose arguments type checkers check."""


class Enqueuer(Generic[P, R_co]):
    """Enqueues calls of one task under fixed options. Made by `task.using(...)`."""

    def __init__(self, calls: CallMaker) -> None:
        self._calls = calls

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Store one call. For a duplicate `key`, return the handle of the live job that has it."""
        calls = self._calls
        (pushed,) = insert(calls.context, [calls.job(args, kwargs)], calls.tx)
        return JobHandle(calls.context, pushed.id, duplicate=pushed.duplicate)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Await `enqueue`, run off the event loop."""
        return await off_loop(self.enqueue)(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[AnyCall]) -> list[JobHandle[R_co]]:
        """Store many calls, one round trip per 2000: tuples of arguments, mappings of keywords, or `s(...)`."""
        from stanchion.jobs.insert import batches, store_batches

        context, tx = self._calls.context, self._calls.tx
        given = (self._call_of(call) for call in several(calls, "calls", "[(1,), (2,)]"))
        stored = store_batches(context, map(self._calls.jobs, batches(given)), tx)
        return [JobHandle(context, one.id, duplicate=one.duplicate) for _, pushed in stored for one in pushed]

    aenqueue_many = off_loop(enqueue_many)

    @overload
    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[R_co]: ...
    @overload
    def s(self: Enqueuer[Concatenate[Any, Q], R_co], /, *args: Q.args, **kwargs: Q.kwargs) -> Signature[R_co]: ...
    def s(self, /, *args: object, **kwargs: object) -> Signature[R_co]:
        """Return a call for use in a flow. Leave out the argument that the previous part's value fills."""
        return self._signature(args, kwargs)

    def si(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature[R_co]:
        """Return an immutable call for use in a flow: it takes no value from the part before it."""
        return self._signature(args, kwargs, immutable=True)

    def _call_of(self, call: Any) -> Call:
        if not isinstance(call, FlowElement):
            return call_of(call)
        from stanchion.flows.parts import Signature

        if not isinstance(call, Signature) or call.task != self._calls.task_name:
            raise InvalidInput(
                f"{call!r} is no call of {self._calls.task_name}; enqueue the calls of each task by itself"
            )
        return call.args, call.kwargs

    def _signature(self, args: Any, kwargs: Any, *, immutable: bool = False) -> Signature[R_co]:
        if self._calls.tx is not None:
            raise InvalidInput("tx applies to the whole flow: pass it to enqueue(tx=...), not to using()")
        from stanchion.flows.layout import CallPart
        from stanchion.flows.parts import Signature

        return Signature(CallPart(self._calls, args, kwargs, immutable=immutable))
