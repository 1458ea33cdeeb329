"""The parts of flows: calls that are not enqueued yet, in sequence or in parallel.

    chain(a, b, c)      b starts when a is done and gets its result; c gets that of b
    group([a, b, c])    all in parallel; the next part gets the list of their results, in this order
    barrier([a, b, c])  the same without the results
    a | b               chain(a, b)

Parts nest to any depth. They are immutable: each method returns a new one. A payload without a task, `Push(payload,
queue="orders")`, stands wherever a call can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, Self, TypeVar, overload

from stanchion.context.context import Context
from stanchion.core.checks import brief
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.ids import new_id
from stanchion.core.types import R_co, Transaction
from stanchion.errors import InvalidInput
from stanchion.flows.handle import FlowHandle
from stanchion.flows.insert import store_flow
from stanchion.flows.layout import CallPart, ChainPart, FlowPart, GroupPart, Once, OneJob, PayloadPart
from stanchion.flows.plan import Kind, Plan, fresh_ids
from stanchion.jobs.options import FlowElement, Push

T = TypeVar("T")


class Part(FlowElement, Generic[R_co]):
    """A call or a payload, or several of them that form a part of a flow. Its type names its value."""

    def __init__(self, part: FlowPart) -> None:
        self._part = part

    @overload
    def then(self, follower: Part[T]) -> Chain[T]: ...
    @overload
    def then(self, follower: Push) -> Chain: ...
    def then(self, follower: Part | Push) -> Chain:
        """Return a chain of this part and another, which gets its value as the first argument."""
        return chain(self, follower)

    @overload
    def __or__(self, follower: Part[T]) -> Chain[T]: ...
    @overload
    def __or__(self, follower: Push) -> Chain: ...
    def __or__(self, follower: Part | Push) -> Chain:
        return chain(self, follower)

    def __ror__(self, before: Push) -> Chain[R_co]:
        return chain(before, self)

    def on_failure(self, handler: Single | Push) -> Self:
        """Return this part with a call that is made once if it fails. The call gets only its own arguments."""
        if self._part.failure_call is not None:
            raise InvalidInput("the part has an on_failure already; combine both in one task")
        return self._of(self._part.failing(_failure_call(handler)))

    def _of(self, part: FlowPart) -> Self:
        return type(self)(part)

    def enqueue(self, tx: Transaction | None = None) -> FlowHandle[R_co]:
        """Store the flow; with `tx`, in that transaction. Up to 2000 jobs are stored in one step."""
        context = self._part.context
        if context is None:
            raise InvalidInput("a flow without calls belongs to no app; store it with app.enqueue_flow(flow)")
        return stored(self, context, tx)

    aenqueue = off_loop(enqueue)


class Single(Part[R_co]):
    """A part that is one job."""


class Signature(Single[R_co]):
    """A call with its options, to be enqueued later. Made by `task.s(...)` and `task.si(...)`."""

    _part: CallPart

    def __init__(self, part: CallPart) -> None:
        super().__init__(part)

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._part.task

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._part.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self._part.kwargs)

    @property
    def immutable(self) -> bool:
        """Whether it takes no value from the part before it."""
        return self._part.immutable

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task}({', '.join(given)})"


class Payload(Single[Any]):
    """A payload without a task, for consumers that reserve jobs of its queue. Made of a `Push` with a queue."""

    _part: PayloadPart

    def __init__(self, part: PayloadPart) -> None:
        super().__init__(part)

    def __repr__(self) -> str:
        return repr(self._part.push)


class Chain(Part[R_co]):
    """Parts that run in sequence."""

    def __init__(self, part: FlowPart, parts: tuple[Part, ...]) -> None:
        super().__init__(part)
        self._parts = parts

    def _of(self, part: FlowPart) -> Self:
        return type(self)(part, self._parts)

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self._parts))})"


class Group(Part[R_co]):
    """Parts that run in parallel."""

    _part: GroupPart[Part | Push]

    def __init__(self, part: GroupPart[Part | Push]) -> None:
        super().__init__(part)

    def __iter__(self) -> Iterator[Part]:
        return map(checked_part, self._part.members)

    def __repr__(self) -> str:
        name, members = "group" if self._part.kind == "list" else "barrier", self._part.members
        listed = "..." if isinstance(members, Once) else ", ".join(map(repr, members))
        return f"{name}([{listed}])"


def part_of(part: FlowElement) -> FlowPart:
    """Return how a part of a flow is planned. Raises InvalidInput for anything else."""
    return checked_part(part)._part


def stored(part: Part, context: Context, tx: Transaction | None = None) -> FlowHandle:
    """Store a flow as `enqueue` does, even if it has no call."""
    plan = Plan(context, new_id(), fresh_ids())
    plan.flow(part_of(part))
    store_flow(context, plan, tx)
    return FlowHandle(context, plan.root)


def _failure_call(handler: object) -> OneJob:
    call = checked_part(handler) if isinstance(handler, Push) else handler
    planned = call._part if isinstance(call, Single) else None
    if not isinstance(planned, OneJob) or planned.failure_call is not None:
        raise InvalidInput(
            f"on_failure takes a single call or payload, such as clean_up.s() or Push('failed', queue='alerts'), "
            f"not {brief(handler)}"
        )
    return planned


@overload
def chain(*parts: *tuple[*tuple[Part | Push, ...], Part[T]]) -> Chain[T]: ...
@overload
def chain(*parts: Part | Push) -> Chain: ...
def chain(*parts: Part | Push) -> Chain:  # type: ignore[misc] # it takes what both take
    """Return a flow of parts in sequence: each gets the value of the part before as its first argument."""
    flat: list[Part] = []
    for part in map(checked_part, parts):
        if isinstance(part, Chain) and part_of(part).failure_call is None:
            flat += part._parts
        else:
            flat.append(part)
    if not flat:
        raise InvalidInput("a chain needs at least one call, such as chain(extract.s(), load.s())")
    return Chain(ChainPart(tuple(map(part_of, flat))), tuple(flat))


@overload
def group() -> Group[list[Any]]: ...
@overload
def group(members: Iterable[Part[T]], /) -> Group[list[T]]: ...
@overload
def group(*members: Part[T]) -> Group[list[T]]: ...
@overload
def group(*members: Part | Push | Iterable[Part | Push]) -> Group[list[Any]]: ...
def group(*members: Part | Push | Iterable[Part | Push]) -> Group[list[Any]]:
    """Return a flow of parallel parts, given as arguments or one iterable. Its value: the list of theirs, in order."""
    return Group(_group_of(members, "list"))


def barrier(*members: Part | Push | Iterable[Part | Push]) -> Group[None]:
    """Return a flow of parallel parts, given as arguments or as one iterable. It has no value."""
    return Group(_group_of(members, "none"))


def _group_of(given: tuple[Part | Push | Iterable[Part | Push], ...], kind: Kind) -> GroupPart[Part | Push]:
    members: Iterable[Part | Push]
    if len(given) == 1 and isinstance(given[0], Iterable) and not isinstance(given[0], Part):
        members = given[0] if isinstance(given[0], Iterator) else tuple(given[0])
    else:
        members = tuple(map(checked_part, given))
    return GroupPart(members, part_of, kind)


def checked_part(part: object) -> Part:
    """Return a part of a flow as given, that of a `Push`; raise InvalidInput for anything else."""
    if isinstance(part, Push):
        return Payload(PayloadPart(part))
    if not isinstance(part, Part):
        raise InvalidInput(
            f"a flow consists of calls, such as task.s(1), of payloads, such as Push(1, queue='orders'), and of other "
            f"flows, not of {brief(part)}"
        )
    return part
