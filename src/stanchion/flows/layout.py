"""How the parts of flows are planned: each lays out the nodes and jobs that it consists of.

The parts that programs hold, in `flows.parts`, each have one of these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain as joined
from itertools import islice
from typing import Generic, Protocol, TypeVar

from stanchion.context.context import Context
from stanchion.core.checks import brief
from stanchion.errors import InvalidInput
from stanchion.flows.plan import After, Inside, Kind, Plan
from stanchion.jobs.options import Push, checked, member
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.slots import waits_at
from stanchion.stores.rules.flows import FlowPosition

M = TypeVar("M")


class MemberMaker(Protocol):
    """Makes the jobs of the calls of one task."""

    @property
    def context(self) -> Context: ...
    @property
    def task_name(self) -> str: ...

    def member(
        self, job_id: str, args: tuple[object, ...], kwargs: Mapping[str, object], *, gets_value: bool
    ) -> NewJob:
        """Return the job of a call in a flow. `gets_value`: that of the part before comes as its first argument."""


class FlowPart(ABC):
    """A part of a flow. `failure_call`: the call made, or the payload pushed, when the part fails."""

    def __init__(self, failure_call: OneJob | None = None) -> None:
        self.failure_call = failure_call

    @property
    @abstractmethod
    def context(self) -> Context | None:
        """The context of the first call; None without calls."""

    @property
    def lone_call(self) -> OneJob | None:
        """The part itself if it is a single job without on_failure, which needs no node of its own; else None."""
        return None

    @abstractmethod
    def failing(self, call: OneJob) -> FlowPart:
        """Return the part with a call that is made if it fails."""

    @abstractmethod
    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the members of this part's node."""

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[OneJob | None, After]:
        """Plan all but the last job; return it (None if the part ends in none) and what precedes it."""
        return None, plan.before(self, after)


class OneJob(FlowPart):
    """A part that is one job."""

    @abstractmethod
    def new_job(
        self, context: Context, job_id: str, position: FlowPosition | None, waits_for: Slot | None = None
    ) -> NewJob:
        """Return the job of this part, to be stored by `context`."""

    @property
    def lone_call(self) -> OneJob | None:
        """The part itself, unless it has an on_failure."""
        return self if self.failure_call is None else None

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the job as the only member of its node."""
        plan.call(self, node, 0, after)
        return Inside("one", {"as": "call"})

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[OneJob | None, After]:
        """Return the part; plan it instead if it has an on_failure."""
        return (self, after) if self.failure_call is None else (None, plan.before(self, after))


class CallPart(OneJob):
    """A call of a task. `immutable`: it takes no value from the part before it."""

    def __init__(
        self,
        maker: MemberMaker,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        failure_call: OneJob | None = None,
        *,
        immutable: bool = False,
    ) -> None:
        super().__init__(failure_call)
        self._maker, self.args, self.kwargs, self.immutable = maker, args, kwargs, immutable

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._maker.task_name

    @property
    def context(self) -> Context:
        """The context of the task."""
        return self._maker.context

    def failing(self, call: OneJob) -> CallPart:
        """Return the call with another that is made if it fails."""
        return CallPart(self._maker, self.args, self.kwargs, call, immutable=self.immutable)

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
        job = self._maker.member(job_id, self.args, self.kwargs, gets_value=gets_value)
        return _placed(job, position, waits_for)


class PayloadPart(OneJob):
    """A payload without a task, for consumers that reserve jobs of its queue."""

    def __init__(self, push: Push, failure_call: OneJob | None = None) -> None:
        super().__init__(failure_call)
        if push.queue is None:
            raise InvalidInput(f"{brief(push)} needs a queue to be a part of a flow: Push(payload, queue='orders')")
        self.push, self.queue = push, push.queue

    @property
    def context(self) -> None:
        """None: a payload belongs to no app."""
        return

    def failing(self, call: OneJob) -> PayloadPart:
        """Return the payload with a call that is made if its job fails."""
        return PayloadPart(self.push, call)

    def new_job(
        self, context: Context, job_id: str, position: FlowPosition | None, waits_for: Slot | None = None
    ) -> NewJob:
        """Return the job with this payload. A duplicate key is an error, as the member would be missing."""
        fields = checked(self.push.options, context.codec, queue=self.queue, declared=context.declared_rate)
        job = NewJob(job_id, self.queue, context.codec.encode(self.push.payload), **fields)
        return _placed(member(job), position, waits_for)


def _placed(job: NewJob, position: FlowPosition | None, waits_for: Slot | None) -> NewJob:
    """Return a job at a position in a flow, waiting for a slot."""
    waiting = job._replace(**waits_at(waits_for))
    return waiting if position is None else waiting._replace(**position._asdict())


class ChainPart(FlowPart):
    """Parts that run in sequence."""

    def __init__(self, parts: tuple[FlowPart, ...], failure_call: OneJob | None = None) -> None:
        super().__init__(failure_call)
        self._parts = parts

    @property
    def context(self) -> Context | None:
        """The context of the first call."""
        return next((context for part in self._parts if (context := part.context) is not None), None)

    def failing(self, call: OneJob) -> ChainPart:
        """Return the chain with a call that is made if any part of it fails."""
        return ChainPart(self._parts, call)

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the last part as the only member of the node, after the parts before it."""
        steps = []
        for part in self._parts[:-1]:
            after = plan.before(part, after)
            steps.append(after.node)
        value = plan.member(self._parts[-1], node, 0, after)
        return Inside("none" if value == "none" else "one", {"as": "chain", "steps": steps})

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[OneJob | None, After]:
        """Plan all parts but the last job of the last one; the whole chain if it has an on_failure."""
        if self.failure_call is not None:
            return None, plan.before(self, after)
        for part in self._parts[:-1]:
            after = plan.before(part, after)
        return self._parts[-1].lay_out_but_last(plan, after)


class Once(Generic[M]):
    """Members from an iterator: read while they are enqueued, never all in memory, and only once."""

    def __init__(self, members: Iterator[M]) -> None:
        self._members, self._read = members, False

    def __iter__(self) -> Iterator[M]:
        self._refuse_second()
        self._read = True
        return self._members

    def first(self) -> list[M]:
        """Return the first member, if any, without consuming it."""
        self._refuse_second()
        first = list(islice(self._members, 1))
        self._members = joined(first, self._members)
        return first

    def _refuse_second(self) -> None:
        if self._read:
            raise InvalidInput("the members came from an iterator, which has been consumed; pass a list instead")


class GroupPart(FlowPart, Generic[M]):
    """Parts that run in parallel. `members`: as they were given; `part_of` returns the part of one."""

    def __init__(
        self, members: Iterable[M], part_of: Callable[[M], FlowPart], kind: Kind, failure_call: OneJob | None = None
    ) -> None:
        super().__init__(failure_call)
        self.members: Iterable[M] = Once(members) if isinstance(members, Iterator) else members
        self.kind, self._part_of = kind, part_of

    @property
    def context(self) -> Context | None:
        """The context of the first call."""
        members = self.members.first() if isinstance(self.members, Once) else self.members
        return next((found for part in map(self._part_of, members) if (found := part.context) is not None), None)

    def failing(self, call: OneJob) -> GroupPart[M]:
        """Return the group with a call that is made if a member fails."""
        return GroupPart(self.members, self._part_of, self.kind, call)

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the members, to run in parallel."""
        return plan.members(map(self._part_of, self.members), self.kind, node, after)
