"""From the definition of a flow to the nodes and jobs that are stored; nothing is stored here.

Every part that something waits for is a node. What comes behind a part waits at its node's gate, and has in the
`after` of its standing whose value it gets:

    chain(a, b, c)       root ── place 0: c      c after N2 ── place 0: b      b after N1 ── place 0: a
    group([a, b])        root ── place 0: a, place 1: b
    group([chain(a, b)]) root ── place 0: N1 ── place 0: b                     b after N2 ── place 0: a
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain as joined
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from stanchion.core.ids import new_ids
from stanchion.errors import InvalidInput
from stanchion.flows.parts import Chain, Group, Kind, Part, Signature
from stanchion.jobs.call import COLLECT, arguments
from stanchion.stores.records.flows import Node
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.flows import Standing, standing
from stanchion.stores.rules.jobs import own_priority
from stanchion.stores.rules.slots import node_gate

if TYPE_CHECKING:
    from stanchion.app import Stanchion

LARGE = 2000
"""A group with more members is stored in parts."""

MOST_IN_ONE_STEP = 10_000
"""Jobs of a flow that a task may return: they are stored in one step with its end."""

_LIST = "*"


class After(NamedTuple):
    """What a part comes behind: a node, or nothing; `kind`: what it gets from that one."""

    node: str = ""
    kind: Kind = "none"

    @property
    def text(self) -> str:
        """How it stands in a job's standing: empty where there is nothing to get."""
        return {"one": self.node, "list": self.node + _LIST, "none": ""}[self.kind]

    @property
    def gate(self) -> str | None:
        """The gate to wait at."""
        return node_gate(self.node) if self.node else None


def after_of(row: JobRow) -> After:
    """Return the node whose value a job gets; one without a node where it gets none."""
    text = standing(row.flow).after if row.flow is not None else ""
    if not text:
        return After()
    return After(text.removesuffix(_LIST), "list" if text.endswith(_LIST) else "one")


class Stream(NamedTuple):
    """A group that is stored in parts: its node, and the members that are still to be read."""

    node: str
    members: Iterator[Part]
    after: After


def fresh_ids() -> Iterator[str]:
    """Yield new ids in ascending order, so that the jobs of a flow are in the order of its parts."""
    while True:
        yield from new_ids(64)


class Planner:
    """Makes the nodes and jobs of a flow, in order.

    `root`: the flow's id. `ids`: those of what it makes. `added_by`: the job that adds to its own flow.
    """

    def __init__(self, app: Stanchion, root: str, ids: Iterator[str], added_by: JobRow | None = None) -> None:
        self.app, self.root, self.ids = app, root, ids
        self.nodes: list[Node] = []
        self.jobs: list[NewJob] = []
        self.streams: list[Stream] = []
        self._added_by = added_by
        self._like: NewJob | JobRow | None = added_by

    def flow(self, part: Part) -> None:
        """Plan the whole flow: its root is the node of this part."""
        self._node(part, self.root, None, After())

    def streamed(self, part: Part, stream: Stream) -> NewJob:
        """Return the job that stands for a member of a large group; of a flow, the one that takes its value."""
        seat = Standing(self.root, stream.node)
        if isinstance(part, Signature) and part.handler is None:
            return part.new_job(next(self.ids), seat._replace(after=stream.after.text).text, stream.after.gate)
        job_id = next(self.ids)
        return self.collecting(job_id, seat, self.before(part, stream.after))

    def before(self, part: Part, after: After) -> After:
        """Plan a part that something comes behind; return how that one refers to it."""
        return self._node(part, next(self.ids), None, after)

    def last_call(self, part: Part, after: After) -> tuple[Signature | None, After]:
        """Plan all of a part but its last call, and return that, with what it comes behind; None if it has none."""
        if isinstance(part, Signature) and part.handler is None:
            return part, after
        if isinstance(part, Chain) and part.handler is None:
            *before, last = part.parts
            for one in before:
                after = self.before(one, after)
            return self.last_call(last, after)
        return None, self.before(part, after)

    def collecting(self, job_id: str, seat: Standing, after: After, value: Any = None) -> NewJob:
        """Return a job, to be run where the one before it is, that has the value of a part for its own.

        That of the part which it comes behind; `value` where it gets none from there.
        """
        like = self._like
        args = (value,) if after.kind == "none" else ()
        return NewJob(
            job_id,
            "default" if like is None else like.queue,
            self.app.codec.encode(arguments(args, {}), "arguments"),
            COLLECT,
            priority=0 if like is None else own_priority(like.priority),
            tenant=None if like is None else like.tenant,
            flow=seat._replace(after=after.text).text,
            waits_for=after.gate,
        )

    def _member(self, part: Part, node: str, place: int, after: After) -> After:
        if isinstance(part, Signature) and part.handler is None:
            self._call(part, Standing(self.root, node, place), after)
            return After(node, "one")
        return self._node(part, next(self.ids), f"{node}:{place}", after)

    def _node(self, part: Part, node_id: str, parent: str | None, after: After) -> After:
        """Plan a part with a node of its own."""
        index = len(self.nodes)
        self.nodes.append(Node(node_id, self.root, parent=parent))
        fields, value = self._inside(part, node_id, after)
        shows = fields.pop("shows")
        if parent is None and self._added_by is not None:
            shows["by"] = self._added_by.id
        self.nodes[index] = self.nodes[index]._replace(
            **fields, handler=self._handler(part.handler), definition=json.dumps(shows)
        )
        return After(node_id, value)

    def _inside(self, part: Part, node_id: str, after: After) -> tuple[dict[str, Any], Kind]:
        """Plan what is in a node; return its fields, and what it gives to a part behind it."""
        if isinstance(part, Signature):
            self._call(part, Standing(self.root, node_id), after)
            return {"shows": {"as": "call"}}, "one"
        if isinstance(part, Chain):
            *before, last = part.parts
            line = []
            for one in before:
                after = self.before(one, after)
                line.append(after.node)
            value = self._member(last, node_id, 0, after).kind
            return {"shows": {"as": "chain", "line": line}}, "none" if value == "none" else "one"
        assert isinstance(part, Group)  # noqa: S101 - there are no other parts
        return self._beside(part, node_id, after)

    def _beside(self, part: Group, node_id: str, after: After) -> tuple[dict[str, Any], Kind]:
        shows = {"as": "group" if part.kind == "list" else "barrier"}
        members = iter(part)
        most = LARGE if self._added_by is None else MOST_IN_ONE_STEP
        first = list(islice(members, most + 1))
        if not first and (after.node or self._added_by is not None):
            # A node without members is done at once, and this one must wait: a call stands for it.
            value: list[Any] | None = [] if part.kind == "list" else None
            waiting = After(after.node, "none")
            self.jobs.append(self.collecting(next(self.ids), Standing(self.root, node_id), waiting, value))
            return {"shows": shows}, "one" if part.kind == "list" else "none"
        if len(first) <= most:
            for place, member in enumerate(first):
                self._member(member, node_id, place, after)
            return {"shows": shows, "kind": part.kind, "size": len(first)}, part.kind
        if self._added_by is not None:
            raise InvalidInput(
                f"a task returned a flow with more than {MOST_IN_ONE_STEP:,} members; let it enqueue them itself"
            )
        self.streams.append(Stream(node_id, joined(first, members), after))
        return {"shows": shows, "kind": part.kind, "size": 0, "closed": False}, part.kind

    def _call(self, part: Signature, seat: Standing, after: After) -> None:
        job = part.new_job(next(self.ids), seat._replace(after=after.text).text, after.gate)
        self.jobs.append(job)
        self._like = job

    def _handler(self, handler: Signature | None) -> str | None:
        if handler is None:
            return None
        job = handler.new_job(next(self.ids), Standing(self.root).text)
        return json.dumps({name: value for name, value in job._asdict().items() if value is not None})
