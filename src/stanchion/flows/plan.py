"""Turns the definition of a flow into the nodes and jobs to store; stores nothing.

Every part that something waits for is a node. The part that follows depends on this node; its `flow_after`
says whose value it gets:

    chain(a, b, c)       root ── index 0: c      c after N2 ── index 0: b      b after N1 ── index 0: a
    group([a, b])        root ── index 0: a, index 1: b
    group([chain(a, b)]) root ── index 0: N1 ── index 0: b                     b after N2 ── index 0: a
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain as joined
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

from stanchion.context.context import Context
from stanchion.core.ids import new_ids
from stanchion.errors import InvalidInput
from stanchion.jobs.call import COLLECT, encoded_call
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.slots import node_slot, waits_at
from stanchion.stores.rules.flows import FlowPosition, failure_text

LARGE = 2000
"""Members above which a group is stored in batches."""

MOST_IN_ONE_STEP = 10_000
"""Jobs in a flow that a task may return: they are stored in one step with its outcome."""

_LIST = "*"


Kind = Literal["one", "list", "none"]
"""The value that a part passes to the next: its only member's, a list of all members', or none."""


class Call(Protocol):
    """A call of a task, or a payload, that is not enqueued yet."""

    def new_job(
        self, context: Context, job_id: str, position: FlowPosition | None, waits_for: Slot | None = None
    ) -> NewJob:
        """Return the job of this call, to be stored by `context`."""


class Part(Protocol):
    """A part of a flow, which adds itself to a plan."""

    @property
    def failure_call(self) -> Call | None:
        """The call made when the part fails."""

    @property
    def lone_call(self) -> Call | None:
        """The part itself if it is a single call without on_failure, which needs no node; else None."""

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan the members of this part's node."""

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Call | None, After]:
        """Plan all but the last call; return it (None if the part ends in none) and what precedes it."""


class After(NamedTuple):
    """The node that a part follows, if any. `kind`: the value that the part gets from it."""

    node: str = ""
    kind: Kind = "none"

    @property
    def text(self) -> str | None:
        """The `flow_after` of a flow position; None if the part gets nothing."""
        return {"one": self.node, "list": self.node + _LIST, "none": None}[self.kind]

    @property
    def dependency(self) -> Slot | None:
        """The dependency that a following job waits for."""
        return node_slot(self.node) if self.node else None


def after_of(row: JobRow) -> After:
    """Return the node whose value a job gets; `After()` if it gets none."""
    text = row.flow_after
    if text is None:
        return After()
    return After(text.removesuffix(_LIST), "list" if text.endswith(_LIST) else "one")


class Inside(NamedTuple):
    """A planned node: the value that it passes on, its public form, and its size."""

    gives: Kind
    shows: dict[str, Any]
    kind: Kind = "one"
    size: int = 1
    closed: bool = True


class Stream(NamedTuple):
    """A group that is stored in batches: its node, and the members that are still to be read."""

    node: str
    members: Iterator[Part]
    after: After


def fresh_ids() -> Iterator[str]:
    """Yield new ids in ascending order, so that the jobs of a flow are in the order of its parts."""
    while True:
        yield from new_ids(64)


class Plan:
    """Creates the nodes and jobs of a flow, in order.

    `root`: the flow's id. `ids`: for the new nodes and jobs. `added_by`: the job that adds to its own flow.
    """

    def __init__(self, context: Context, root: str, ids: Iterator[str], added_by: JobRow | None = None) -> None:
        self.root, self.ids = root, ids
        self.nodes: list[FlowNode] = []
        self.jobs: list[NewJob] = []
        self.streams: list[Stream] = []
        self._context = context
        self._added_by = added_by
        self._like: NewJob | JobRow | None = added_by

    # -- whole parts

    def flow(self, part: Part) -> None:
        """Plan the whole flow: its root is the node of this part."""
        self._node(part, self.root, None, After())

    def before(self, part: Part, after: After) -> After:
        """Plan a part that another follows; return the follower's dependency."""
        return self._node(part, next(self.ids), None, after)

    def streamed(self, part: Part, stream: Stream) -> NewJob:
        """Return the job of a member of a large group: of a nested flow the last one, or one to collect its value."""
        position = FlowPosition(self.root, stream.node)
        job_id = next(self.ids)
        last, after = part.lay_out_but_last(self, stream.after)
        return self.collecting(job_id, position, after) if last is None else self.job(last, job_id, position, after)

    # -- members of a node

    def call(self, call: Call, node: str, index: int, after: After) -> None:
        """Plan a call as a member of a node."""
        self.jobs.append(self._noted(self.job(call, next(self.ids), FlowPosition(self.root, node, index), after)))

    def member(self, part: Part, node: str, index: int, after: After) -> Kind:
        """Plan a part as a member of a node; return the kind of value that it passes on."""
        if (call := part.lone_call) is not None:
            self.call(call, node, index, after)
            return "one"
        return self._node(part, next(self.ids), f"{node}:{index}", after).kind

    def members(self, members: Iterator[Part], kind: Kind, node: str, after: After) -> Inside:
        """Plan parallel parts as the members of a node; members of a large group are read later."""
        shows = {"as": "group" if kind == "list" else "barrier"}
        most = LARGE if self._added_by is None else MOST_IN_ONE_STEP
        first = list(islice(members, most + 1))
        if not first and (after.node or self._added_by is not None):
            # A node without members would be done immediately. This one must wait, so it gets a collecting job.
            value: list[object] | None = [] if kind == "list" else None
            waiting = After(after.node, "none")
            self.jobs.append(self.collecting(next(self.ids), FlowPosition(self.root, node, 0), waiting, value))
            return Inside("one" if kind == "list" else "none", shows)
        if len(first) <= most:
            for index, member in enumerate(first):
                self.member(member, node, index, after)
            return Inside(kind, shows, kind, len(first))
        if self._added_by is not None:
            raise InvalidInput(
                f"a task returned a flow with more than {MOST_IN_ONE_STEP:,} members; enqueue it instead"
            )
        self.streams.append(Stream(node, joined(first, members), after))
        return Inside(kind, shows, kind, 0, closed=False)

    # -- jobs

    def job(self, call: Call, job_id: str, position: FlowPosition, after: After) -> NewJob:
        """Return the job of a call, at this position and after another part."""
        return call.new_job(self._context, job_id, position._replace(flow_after=after.text), after.dependency)

    def collecting(self, job_id: str, position: FlowPosition, after: After, value: object = None) -> NewJob:
        """Return a job whose result is the value of the part it follows, or `value` if it gets none.

        It goes into the queue of the call planned before it: a queue that has workers.
        """
        like = self._like
        args = (value,) if after.kind == "none" else ()
        return NewJob(
            job_id,
            "default" if like is None else like.queue,
            encoded_call(self._context.codec, args, {}),
            COLLECT,
            priority=0 if like is None else like.priority,
            tenant=None if like is None else like.tenant,
            **waits_at(after.dependency),
            **position._replace(flow_after=after.text)._asdict(),
        )

    def _noted(self, job: NewJob) -> NewJob:
        if job.task is not None:  # a plain payload is for consumers, which can't run a collecting job
            self._like = job
        return job

    def _node(self, part: Part, node: str, parent: str | None, after: After) -> After:
        """Plan a part as a node."""
        number = len(self.nodes)
        self.nodes.append(FlowNode(node, self.root, parent=parent))
        inside = part.lay_out(self, node, after)
        added = {} if parent is not None or self._added_by is None else {"by": self._added_by.id}
        self.nodes[number] = self.nodes[number]._replace(
            kind=inside.kind,
            size=inside.size,
            closed=inside.closed,
            on_failure=self._failure_job(part.failure_call),
            definition=json.dumps({**inside.shows, **added}),
        )
        return After(node, inside.gives)

    def _failure_job(self, call: Call | None) -> str | None:
        if call is None:
            return None
        job = call.new_job(self._context, next(self.ids), FlowPosition(self.root))
        return failure_text(job)
