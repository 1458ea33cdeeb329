"""The parts of flows: calls that are not enqueued yet, in sequence or in parallel.

    chain(a, b, c)      b starts when a is done and gets its result; c gets that of b
    group([a, b, c])    all in parallel; the next part gets the list of their results, in this order
    barrier([a, b, c])  the same without the results
    a | b               chain(a, b)

Parts nest to any depth. They are immutable: each method returns a new one. A payload without a task, `Push(payload,
queue="orders")`, stands wherever a call can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain as joined
from itertools import islice
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from stanchion.context.context import Context
from stanchion.core.aio import off_loop
from stanchion.core.checks import shown
from stanchion.core.ids import new_id
from stanchion.core.result_type import R_co
from stanchion.core.transactions import Transaction
from stanchion.errors import InvalidInput
from stanchion.flows.handle import FlowHandle
from stanchion.flows.insert import store_flow
from stanchion.flows.plan import After, Inside, Kind, Plan, fresh_ids
from stanchion.jobs.options import FlowElement, Push, checked, member
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.flows import FlowPosition
from stanchion.stores.rules.slots import waits_at

T = TypeVar("T")


class MemberMaker(Protocol):
    """Makes the jobs of the calls of one task."""

    @property
    def context(self) -> Context: ...
    @property
    def task_name(self) -> str: ...

    def member(self, job_id: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, gets_value: bool) -> NewJob:
        """Return the job of a call in a flow. `gets_value`: that of the part before comes as its first argument."""


class Part(ABC, FlowElement, Generic[R_co]):
    """A call or a payload, or several of them that form a part of a flow. Its type names its value."""

    failure_call: Single | None = None
    """The call made, or the payload pushed, when the part fails."""

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

    @abstractmethod
    def on_failure(self, handler: Single | Push) -> Self:
        """Return this part with a call that is made once if it fails. The call gets only its own arguments."""

    def enqueue(self, tx: Transaction | None = None) -> FlowHandle[R_co]:
        """Store the flow; with `tx`, in that transaction. Up to 2000 jobs are stored in one step."""
        context = self.context
        if context is None:
            raise InvalidInput("a flow without calls belongs to no app; store it with app.enqueue_flow(flow)")
        return self.enqueue_in(context, tx)

    aenqueue = off_loop(enqueue)

    def enqueue_in(self, context: Context, tx: Transaction | None = None) -> FlowHandle[R_co]:
        """Store the flow as `enqueue` does, even if it has no call."""
        plan = Plan(context, new_id(), fresh_ids())
        plan.flow(self)
        store_flow(context, plan, tx)
        return FlowHandle(context, plan.root)

    @property
    @abstractmethod
    def context(self) -> Context | None:
        """The context of the first call; None without calls."""

    @property
    def lone_call(self) -> Single | None:
        """The part itself if it is a single job without on_failure, which needs no node of its own; else None."""
        return None

    @abstractmethod
    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the members of this part's node."""

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Single | None, After]:
        """Plan all but the last job; return it (None if the part ends in none) and what precedes it."""
        return None, plan.before(self, after)

    def _checked_call(self, handler: Any) -> Single:
        if self.failure_call is not None:
            raise InvalidInput("the part has an on_failure already; combine both in one task")
        call = checked_part(handler) if isinstance(handler, Push) else handler
        if not isinstance(call, Single) or call.failure_call is not None:
            raise InvalidInput(
                f"on_failure takes a single call or payload, such as clean_up.s() or Push('failed', queue='alerts'), "
                f"not {shown(handler)}"
            )
        return call


class Single(Part[R_co]):
    """A part that is one job."""

    @abstractmethod
    def new_job(
        self, context: Context, job_id: str, position: FlowPosition | None, waits_for: Slot | None = None
    ) -> NewJob:
        """Return the job of this part, to be stored by `context`."""

    @property
    def lone_call(self) -> Single[R_co] | None:
        """The part itself, unless it has an on_failure."""
        return self if self.failure_call is None else None

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the job as the only member of its node."""
        plan.call(self, node, 0, after)
        return Inside("one", {"as": "call"})

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Single | None, After]:
        """Return the part; plan it instead if it has an on_failure."""
        return (self, after) if self.failure_call is None else (None, plan.before(self, after))


class Signature(Single[R_co]):
    """A call with its options, to be enqueued later. Made by `task.s(...)` and `task.si(...)`.

    `immutable`: it takes no value from the part before it.
    """

    def __init__(
        self,
        enqueuer: MemberMaker,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        failure_call: Single | None = None,
        *,
        immutable: bool = False,
    ) -> None:
        self._enqueuer, self.args, self.kwargs, self.failure_call = enqueuer, args, kwargs, failure_call
        self.immutable = immutable

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._enqueuer.task_name

    def on_failure(self, handler: Single | Push) -> Signature[R_co]:
        """Return this call with another that is made once if it fails."""
        call = self._checked_call(handler)
        return Signature(self._enqueuer, self.args, self.kwargs, call, immutable=self.immutable)

    @property
    def context(self) -> Context:
        """The context of the task."""
        return self._enqueuer.context

    def new_job(
        self,
        context: Context,  # noqa: ARG002 - a call has that of its task
        job_id: str,
        position: FlowPosition | None,
        waits_for: Slot | None = None,
    ) -> NewJob:
        """Return the job of this call."""
        if self.immutable and position is not None:
            position = position._replace(flow_after=None)
        gets_value = position is not None and position.flow_after is not None
        job = self._enqueuer.member(job_id, self.args, self.kwargs, gets_value=gets_value)
        return placed(job, position, waits_for)

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task}({', '.join(given)})"


class Payload(Single[Any]):
    """A payload without a task, for consumers that reserve jobs of its queue. Made of a `Push` with a queue."""

    def __init__(self, push: Push, failure_call: Single | None = None) -> None:
        if push.queue is None:
            raise InvalidInput(f"{shown(push)} needs a queue to be a part of a flow: Push(payload, queue='orders')")
        self._push, self.queue, self.failure_call = push, push.queue, failure_call

    def on_failure(self, handler: Single | Push) -> Payload:
        """Return this payload with a call that is made once if its job fails."""
        return Payload(self._push, self._checked_call(handler))

    @property
    def context(self) -> None:
        """None: a payload belongs to no app."""
        return

    def new_job(
        self, context: Context, job_id: str, position: FlowPosition | None, waits_for: Slot | None = None
    ) -> NewJob:
        """Return the job with this payload. A duplicate key is an error, as the member would be missing."""
        fields = checked(self._push.options, context.codec, queue=self.queue, declared=context.declared_rate)
        job = NewJob(job_id, self.queue, context.codec.encode(self._push.payload), **fields)
        return placed(member(job), position, waits_for)

    def __repr__(self) -> str:
        return repr(self._push)


def placed(job: NewJob, position: FlowPosition | None, waits_for: Slot | None) -> NewJob:
    """Return a job at a position in a flow, waiting for a slot."""
    waiting = job._replace(**waits_at(waits_for))
    return waiting if position is None else waiting._replace(**position._asdict())


class Chain(Part[R_co]):
    """Parts that run in sequence."""

    def __init__(self, parts: tuple[Part, ...], failure_call: Single | None = None) -> None:
        self.parts, self.failure_call = parts, failure_call

    def on_failure(self, handler: Single | Push) -> Chain[R_co]:
        """Return this chain with a call that is made once if any part of it fails."""
        return Chain(self.parts, self._checked_call(handler))

    @property
    def context(self) -> Context | None:
        """The context of the first call."""
        return next((context for part in self.parts if (context := part.context) is not None), None)

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the last part as the only member of the node, after the parts before it."""
        steps = []
        for part in self.parts[:-1]:
            after = plan.before(part, after)
            steps.append(after.node)
        value = plan.member(self.parts[-1], node, 0, after)
        return Inside("none" if value == "none" else "one", {"as": "chain", "steps": steps})

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Single | None, After]:
        """Plan all parts but the last job of the last one; the whole chain if it has an on_failure."""
        if self.failure_call is not None:
            return None, plan.before(self, after)
        for part in self.parts[:-1]:
            after = plan.before(part, after)
        return self.parts[-1].lay_out_but_last(plan, after)

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self.parts))})"


class _Once:
    """Members from an iterator: read while they are enqueued, never all in memory, and only once."""

    def __init__(self, members: Iterator[Part | Push]) -> None:
        self._members, self._read = members, False

    def __iter__(self) -> Iterator[Part | Push]:
        self._refuse_second()
        self._read = True
        return self._members

    def first(self) -> list[Part | Push]:
        """Return the first member, if any, without consuming it."""
        self._refuse_second()
        first = list(islice(self._members, 1))
        self._members = joined(first, self._members)
        return first

    def _refuse_second(self) -> None:
        if self._read:
            raise InvalidInput("the members came from an iterator, which has been consumed; pass a list instead")


class Group(Part[R_co]):
    """Parts that run in parallel."""

    def __init__(self, members: Iterable[Part | Push], kind: Kind, failure_call: Single | None = None) -> None:
        self.kind, self.failure_call = kind, failure_call
        self._members: Iterable[Part | Push] = _Once(members) if isinstance(members, Iterator) else members

    def on_failure(self, handler: Single | Push) -> Group[R_co]:
        """Return this group with a call that is made once if a member fails."""
        return Group(self._members, self.kind, self._checked_call(handler))

    def __iter__(self) -> Iterator[Part]:
        return map(checked_part, self._members)

    @property
    def context(self) -> Context | None:
        """The context of the first call."""
        members = self._members.first() if isinstance(self._members, _Once) else self._members
        return next((found for part in map(checked_part, members) if (found := part.context) is not None), None)

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the members, to run in parallel."""
        return plan.members(iter(self), self.kind, node, after)

    def __repr__(self) -> str:
        name = "group" if self.kind == "list" else "barrier"
        shown = "..." if isinstance(self._members, _Once) else ", ".join(map(repr, self._members))
        return f"{name}([{shown}])"


@overload
def chain(*parts: *tuple[*tuple[Part | Push, ...], Part[T]]) -> Chain[T]: ...
@overload
def chain(*parts: Part | Push) -> Chain: ...
def chain(*parts: Part | Push) -> Chain:  # type: ignore[misc] # it takes what both take
    """Return a flow of parts in sequence: each gets the value of the part before as its first argument."""
    flat: list[Part] = []
    for part in map(checked_part, parts):
        if isinstance(part, Chain) and part.failure_call is None:
            flat += part.parts
        else:
            flat.append(part)
    if not flat:
        raise InvalidInput("a chain needs at least one call, such as chain(extract.s(), load.s())")
    return Chain(tuple(flat))


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
    return Group(_members(members), "list")


def barrier(*members: Part | Push | Iterable[Part | Push]) -> Group[None]:
    """Return a flow of parallel parts, given as arguments or as one iterable. It has no value."""
    return Group(_members(members), "none")


def _members(given: tuple[Part | Push | Iterable[Part | Push], ...]) -> Iterable[Part | Push]:
    if len(given) == 1 and isinstance(given[0], Iterable) and not isinstance(given[0], Part):
        return given[0] if isinstance(given[0], Iterator) else tuple(given[0])
    return tuple(map(checked_part, given))


def checked_part(part: Any) -> Part:
    """Return a part of a flow as given, that of a `Push`; raise InvalidInput for anything else."""
    if isinstance(part, Push):
        return Payload(part)
    if not isinstance(part, Part):
        raise InvalidInput(
            f"a flow consists of calls, such as task.s(1), of payloads, such as Push(1, queue='orders'), and of other "
            f"flows, not of {shown(part)}"
        )
    return part
