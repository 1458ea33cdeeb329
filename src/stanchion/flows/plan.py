"""From the definition of a flow to the nodes and jobs that are stored; nothing is stored here.

Every part that something waits for is a node. What comes behind a part depends on its node, and has in the `after` of
its flow position whose value it gets:

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
from stanchion.jobs.call import COLLECT, arguments
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.flows import FlowPosition, flow_position
from stanchion.stores.rules.jobs import own_priority
from stanchion.stores.rules.slots import node_gate

LARGE = 2000
"""A group with more members is stored in parts."""

MOST_IN_ONE_STEP = 10_000
"""Jobs of a flow that a task may return: they are stored in one step with its end."""

_LIST = "*"


Kind = Literal["one", "list", "none"]
"""What a part gives to the one behind it: the value of its only member, those of all members, or nothing."""


class Call(Protocol):
    """A call of a task that is not enqueued yet."""

    def new_job(self, job_id: str, flow: str | None, waits_for: str | None = None) -> NewJob:
        """Return the job of this call."""


class Part(Protocol):
    """A part of a flow, which lays itself out on a plan."""

    @property
    def handler(self) -> Call | None:
        """What is called when the part fails."""

    @property
    def lone_call(self) -> Call | None:
        """The part itself where it is nothing but a call, which needs no node of its own; else None."""

    def lay_out(self, plan: Plan, node: str, after: After) -> Inside:
        """Plan what is in the node of this part."""

    def lay_out_but_last(self, plan: Plan, after: After) -> tuple[Call | None, After]:
        """Plan all but the last call; return that, None if the part does not end in one, and what it comes behind."""


class After(NamedTuple):
    """What a part comes behind: a node, or nothing; `kind`: what it gets from that one."""

    node: str = ""
    kind: Kind = "none"

    @property
    def text(self) -> str:
        """How it stands in a flow position: empty where there is nothing to get."""
        return {"one": self.node, "list": self.node + _LIST, "none": ""}[self.kind]

    @property
    def dependency(self) -> str | None:
        """What a job behind it waits for."""
        return node_gate(self.node) if self.node else None


def after_of(row: JobRow) -> After:
    """Return the node whose value a job gets; one without a node where it gets none."""
    text = flow_position(row.flow).after if row.flow is not None else ""
    if not text:
        return After()
    return After(text.removesuffix(_LIST), "list" if text.endswith(_LIST) else "one")


class Inside(NamedTuple):
    """What is in a node: what it gives, how it is shown, and its size where that is not 1."""

    gives: Kind
    shows: dict[str, Any]
    kind: Kind = "one"
    size: int = 1
    closed: bool = True


class Stream(NamedTuple):
    """A group that is stored in parts: its node, and the members that are still to be read."""

    node: str
    members: Iterator[Part]
    after: After


def fresh_ids() -> Iterator[str]:
    """Yield new ids in ascending order, so that the jobs of a flow are in the order of its parts."""
    while True:
        yield from new_ids(64)


class Plan:
    """Makes the nodes and jobs of a flow, in order.

    `root`: the flow's id. `ids`: those of what it makes. `added_by`: the job that adds to its own flow.
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
        """Plan a part that something comes behind; return how that one refers to it."""
        return self._node(part, next(self.ids), None, after)

    def streamed(self, part: Part, stream: Stream) -> NewJob:
        """Return the job that stands for a member of a large group; of a flow, the one that takes its value."""
        position = FlowPosition(self.root, stream.node)
        job_id = next(self.ids)
        if (call := part.lone_call) is not None:
            return self.job(call, job_id, position, stream.after)
        return self.collecting(job_id, position, self.before(part, stream.after))

    # -- what is in the node of a part

    def call(self, call: Call, node: str, index: int, after: After) -> None:
        """Plan a call as a member of a node."""
        self._like = self.job(call, next(self.ids), FlowPosition(self.root, node, index), after)
        self.jobs.append(self._like)

    def member(self, part: Part, node: str, index: int, after: After) -> Kind:
        """Plan a part as a member of a node; return what it gives."""
        if (call := part.lone_call) is not None:
            self.call(call, node, index, after)
            return "one"
        return self._node(part, next(self.ids), f"{node}:{index}", after).kind

    def members(self, members: Iterator[Part], kind: Kind, node: str, after: After) -> Inside:
        """Plan parts beside each other as the members of a node; those of a large group stay to be read."""
        shows = {"as": "group" if kind == "list" else "barrier"}
        most = LARGE if self._added_by is None else MOST_IN_ONE_STEP
        first = list(islice(members, most + 1))
        if not first and (after.node or self._added_by is not None):
            # A node without members is done at once, and this one must wait: a call stands for it.
            value: list[Any] | None = [] if kind == "list" else None
            waiting = After(after.node, "none")
            self.jobs.append(self.collecting(next(self.ids), FlowPosition(self.root, node), waiting, value))
            return Inside("one" if kind == "list" else "none", shows)
        if len(first) <= most:
            for index, member in enumerate(first):
                self.member(member, node, index, after)
            return Inside(kind, shows, kind, len(first))
        if self._added_by is not None:
            raise InvalidInput(
                f"a task returned a flow with more than {MOST_IN_ONE_STEP:,} members; let it enqueue them itself"
            )
        self.streams.append(Stream(node, joined(first, members), after))
        return Inside(kind, shows, kind, 0, closed=False)

    # -- jobs

    def job(self, call: Call, job_id: str, position: FlowPosition, after: After) -> NewJob:
        """Return the job of a call, at this position behind another part."""
        return call.new_job(job_id, position._replace(after=after.text).text, after.dependency)

    def collecting(self, job_id: str, position: FlowPosition, after: After, value: Any = None) -> NewJob:
        """Return a job, to be run where the one before it is, that has the value of a part for its own.

        That of the part which it comes behind; `value` where it gets none from there.
        """
        like = self._like
        args = (value,) if after.kind == "none" else ()
        return NewJob(
            job_id,
            "default" if like is None else like.queue,
            self._context.codec.encode(arguments(args, {}), "arguments"),
            COLLECT,
            priority=0 if like is None else own_priority(like.priority),
            tenant=None if like is None else like.tenant,
            flow=position._replace(after=after.text).text,
            waits_for=after.dependency,
        )

    def _node(self, part: Part, node: str, parent: str | None, after: After) -> After:
        """Plan a part with a node of its own."""
        number = len(self.nodes)
        self.nodes.append(FlowNode(node, self.root, parent=parent))
        inside = part.lay_out(self, node, after)
        added = {} if parent is not None or self._added_by is None else {"by": self._added_by.id}
        self.nodes[number] = self.nodes[number]._replace(
            kind=inside.kind,
            size=inside.size,
            closed=inside.closed,
            handler=self._handler(part.handler),
            definition=json.dumps({**inside.shows, **added}),
        )
        return After(node, inside.gives)

    def _handler(self, handler: Call | None) -> str | None:
        if handler is None:
            return None
        job = handler.new_job(next(self.ids), FlowPosition(self.root).text)
        return json.dumps({name: value for name, value in job._asdict().items() if value is not None})
