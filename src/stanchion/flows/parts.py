"""What flows are made of: calls that are not enqueued yet, one after the other or beside each other.

    chain(a, b, c)      b begins when a is done, and gets its result; c that of b
    group([a, b, c])    all beside each other; what follows gets the list of their results, in this order
    barrier([a, b, c])  the same without the results

Parts nest to any depth. They can't be changed: each method gives another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain as joined
from itertools import islice
from typing import Any, Protocol, Self

from stanchion.context.context import Context
from stanchion.core.aio import off_loop
from stanchion.core.checks import shown
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.flows.handle import FlowHandle
from stanchion.flows.insert import store_flow
from stanchion.flows.plan import After, Inside, Kind, Plan, fresh_ids
from stanchion.stores.records.jobs import NewJob


class MemberMaker(Protocol):
    """Makes the jobs of the calls of one task."""

    @property
    def context(self) -> Context: ...
    @property
    def task_name(self) -> str: ...

    def member(self, job_id: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        """Return the job of a call in a flow."""


class Part(ABC):
    """A call, or several that belong together."""

    handler: Signature | None = None
    """What is called when the part fails."""

    def then(self, follower: Part) -> Chain:
        """Return this part with another behind it, which gets its value as the first argument."""
        return chain(self, follower)

    @abstractmethod
    def on_failure(self, handler: Signature) -> Self:
        """Return this part with a call that is made, once, when it fails; it gets no argument but its own."""

    def enqueue(self, tx: Any = None) -> FlowHandle:
        """Store the flow; with `tx`, in that transaction. Up to 2000 jobs are stored in one step."""
        context = self.context
        if context is None:
            raise InvalidInput("a flow without any call belongs to no app; store it with app.enqueue_flow(flow)")
        return self.enqueue_in(context, tx)

    aenqueue = off_loop(enqueue)

    def enqueue_in(self, context: Context, tx: Any = None) -> FlowHandle:
        """Store the flow as `enqueue` does, also where it has no call."""
        plan = Plan(context, new_id(), fresh_ids())
        plan.flow(self)
        store_flow(context, plan, tx)
        return FlowHandle(context, plan.root)

    @property
    @abstractmethod
    def context(self) -> Context | None:
        """The context of the first call; None where there is no call."""

    @property
    def lone_call(self) -> Signature | None:
        """The part itself where it is nothing but a call, which needs no node of its own; else None."""
        return None

    @abstractmethod
    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan what is in the node of this part."""

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Signature | None, After]:
        """Plan all but the last call; return that, None if the part does not end in one, and what it comes behind."""
        return None, plan.before(self, after)

    def _checked_handler(self, handler: Any) -> Signature:
        if self.handler is not None:
            raise InvalidInput("the part has an on_failure already; a single task can do both")
        if not isinstance(handler, Signature) or handler.handler is not None:
            raise InvalidInput(f"on_failure takes a call, such as mend.s(), and nothing beside it, not {handler!r}")
        return handler


class Signature(Part):
    """A call with its options, to be enqueued later. Made by `task.s(...)`."""

    def __init__(
        self,
        enqueuer: MemberMaker,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        handler: Signature | None = None,
    ) -> None:
        self._enqueuer, self.args, self.kwargs, self.handler = enqueuer, args, kwargs, handler

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._enqueuer.task_name

    def on_failure(self, handler: Signature) -> Signature:
        """Return this call with another that is made, once, when it fails."""
        return Signature(self._enqueuer, self.args, self.kwargs, self._checked_handler(handler))

    @property
    def context(self) -> Context:
        """The context of the task."""
        return self._enqueuer.context

    @property
    def lone_call(self) -> Signature | None:
        """The call, unless something is called when it fails."""
        return self if self.handler is None else None

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the call as the only member of its node."""
        plan.call(self, node, 0, after)
        return Inside("one", {"as": "call"})

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Signature | None, After]:
        """Return the call; one that has a handler is planned."""
        return (self, after) if self.handler is None else (None, plan.before(self, after))

    def new_job(self, job_id: str, flow: str | None, waits_for: str | None = None) -> NewJob:
        """Return the job of this call."""
        return self._enqueuer.member(job_id, self.args, self.kwargs)._replace(flow=flow, waits_for=waits_for)

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task}({', '.join(given)})"


class Chain(Part):
    """Parts that follow each other."""

    def __init__(self, parts: tuple[Part, ...], handler: Signature | None = None) -> None:
        self.parts, self.handler = parts, handler

    def on_failure(self, handler: Signature) -> Chain:
        """Return this chain with a call that is made, once, when any part of it fails."""
        return Chain(self.parts, self._checked_handler(handler))

    @property
    def context(self) -> Context | None:
        """The context of the first call."""
        return next((context for part in self.parts if (context := part.context) is not None), None)

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the last part as the only member of the node, behind those before it."""
        line = []
        for part in self.parts[:-1]:
            after = plan.before(part, after)
            line.append(after.node)
        value = plan.member(self.parts[-1], node, 0, after)
        return Inside("none" if value == "none" else "one", {"as": "chain", "line": line})

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Signature | None, After]:
        """Plan all parts but the last call of the last one; a chain that has a handler is planned whole."""
        if self.handler is not None:
            return None, plan.before(self, after)
        for part in self.parts[:-1]:
            after = plan.before(part, after)
        return self.parts[-1].lay_out_but_last(plan, after)

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self.parts))})"


class _Once:
    """Members that come from an iterator: read as they are enqueued, never held whole, and not to be read again."""

    def __init__(self, members: Iterator[Part]) -> None:
        self._members, self._read = members, False

    def __iter__(self) -> Iterator[Part]:
        self._refuse_second()
        self._read = True
        return self._members

    def first(self) -> list[Part]:
        """Return the first member, if there is one, without taking it."""
        self._refuse_second()
        first = list(islice(self._members, 1))
        self._members = joined(first, self._members)
        return first

    def _refuse_second(self) -> None:
        if self._read:
            raise InvalidInput("the members came from an iterator, which has been read; give a list of them")


class Group(Part):
    """Parts beside each other."""

    def __init__(self, members: Iterable[Part], kind: Kind, handler: Signature | None = None) -> None:
        self.kind, self.handler = kind, handler
        self._members: Iterable[Part] = _Once(members) if isinstance(members, Iterator) else members

    def on_failure(self, handler: Signature) -> Group:
        """Return this group with a call that is made, once, when a member fails."""
        return Group(self._members, self.kind, self._checked_handler(handler))

    def __iter__(self) -> Iterator[Part]:
        return map(checked_part, self._members)

    @property
    def context(self) -> Context | None:
        """The context of the first call."""
        members = self._members.first() if isinstance(self._members, _Once) else self._members
        return next((found for part in map(checked_part, members) if (found := part.context) is not None), None)

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the members beside each other."""
        return plan.members(iter(self), self.kind, node, after)

    def __repr__(self) -> str:
        name = "group" if self.kind == "list" else "barrier"
        shown = "..." if isinstance(self._members, _Once) else ", ".join(map(repr, self._members))
        return f"{name}([{shown}])"


def chain(*parts: Part) -> Chain:
    """Return a flow of parts that follow each other: each gets the value of the one before as its first argument."""
    flat: list[Part] = []
    for part in map(checked_part, parts):
        if isinstance(part, Chain) and part.handler is None:
            flat += part.parts
        else:
            flat.append(part)
    if not flat:
        raise InvalidInput("a chain needs at least one call, such as chain(extract.s(), load.s())")
    return Chain(tuple(flat))


def group(*members: Part | Iterable[Part]) -> Group:
    """Return a flow of parts beside each other, given as such or as one iterable. Its value: theirs, in order."""
    return Group(_members(members), "list")


def barrier(*members: Part | Iterable[Part]) -> Group:
    """Return a flow of parts beside each other, given as such or as one iterable; it has no value."""
    return Group(_members(members), "none")


def _members(given: tuple[Part | Iterable[Part], ...]) -> Iterable[Part]:
    if len(given) == 1 and isinstance(given[0], Iterable) and not isinstance(given[0], Part):
        return given[0] if isinstance(given[0], Iterator) else tuple(given[0])
    return tuple(map(checked_part, given))


def checked_part(part: Any) -> Part:
    """Return what is a part of a flow; InvalidInput otherwise."""
    if not isinstance(part, Part):
        raise InvalidInput(f"a flow is made of calls, such as task.s(1), and of other flows, not of {shown(part)}")
    return part
