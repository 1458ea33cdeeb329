"""The parts of a flow as pure functions: a node and how a member ended, in; the next node and what follows, out.

A flow is a tree of nodes with jobs as its leaves. A job says in its `flow` where it stands, as
`root:node:place:after`: in which place of which node, and after which node, whose value it gets. One that comes after
a node waits at that node's gate. A node may be a member of another one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from stanchion.stores.records.flows import ExtendFlow, FlowChange, FlowNode, MemberEnd, NodeState, OpenFlow
from stanchion.stores.records.jobs import JobRow, JobState, NewJob


class FlowPosition(NamedTuple):
    """Where a job stands in a flow; `node` is empty for one that nothing waits for, `after` for one that begins."""

    root: str
    node: str = ""
    place: int = 0
    after: str = ""

    @property
    def text(self) -> str:
        """How it is stored."""
        return f"{self.root}:{self.node}:{self.place}:{self.after}"


def flow_position(flow: str) -> FlowPosition:
    """Return where a job stands that has this `flow`."""
    root, node, place, after = flow.split(":")
    return FlowPosition(root, node, int(place), after)


def jobs_in(changes: Sequence[FlowChange]) -> list[NewJob]:
    """Return the jobs that these changes may store."""
    return [job for change in changes if isinstance(change, OpenFlow | ExtendFlow) for job in change.jobs]


def end_of(before: JobRow, after: JobRow | None, counted: str | None = None) -> MemberEnd | None:
    """Return how a member of a flow has ended by a step; None when it has not, or stands in no node.

    One that was deleted counts as cancelled, one that was `buried` as dead, also where it lives on as a dead letter.
    """
    if before.flow is None or before.finished_at is not None:
        return None
    place = flow_position(before.flow)
    if not place.node:
        return None
    if after is None:
        return MemberEnd(place.node, place.place, JobState.CANCELLED.value, before.id)
    if after.finished_at is not None:
        return MemberEnd(place.node, place.place, after.state, before.id, result=after.result)
    if counted == "buried":
        return MemberEnd(place.node, place.place, JobState.DEAD.value, before.id)
    return None


def counts_anew(known: MemberEnd | None, end: MemberEnd) -> bool:
    """Tell whether an end is to be recorded: the first of its member, or the success of one that was re-driven."""
    return known is None or (known.state != JobState.DONE and end.state == JobState.DONE)


def advanced(node: FlowNode, known: MemberEnd | None, end: MemberEnd, now: int) -> FlowNode:
    """Return the node after a member has ended; `known`: how it had ended before."""
    if known is None:
        node = node._replace(ended=node.ended + 1)
    if node.state == NodeState.RUNNING and end.state != JobState.DONE:
        return node._replace(state=NodeState.FAILED.value, finished_at=now)
    return completed(node, now)


def completed(node: FlowNode, now: int) -> FlowNode:
    """Return the node, done if all of its members are."""
    if node.state == NodeState.RUNNING and node.closed and node.ended >= node.size:
        return node._replace(state=NodeState.DONE.value, finished_at=now)
    return node


def deepest_first(nodes: Sequence[FlowNode]) -> list[list[FlowNode]]:
    """Return the nodes of a flow by how deep they are in its tree, the deepest first, as the ends of members go up."""
    parents = {node.id: _parent(node) for node in nodes}
    depths: dict[str, int] = {}
    for one in parents:
        above, found = one, 0
        while (up := parents.get(above)) is not None:
            above, found = up, found + 1
            if above in depths:
                found += depths[above]
                break
        depths[one] = found
    levels: defaultdict[int, list[FlowNode]] = defaultdict(list)
    for node in nodes:
        levels[depths[node.id]].append(node)
    return [levels[depth] for depth in sorted(levels, reverse=True)]


def _parent(node: FlowNode) -> str | None:
    return None if node.parent is None else node.parent.partition(":")[0]


def end_of_node(node: FlowNode) -> MemberEnd | None:
    """Return how a finished node has ended as a member of its parent; None when it is nobody's."""
    if node.parent is None or node.state == NodeState.RUNNING:
        return None
    parent, _, place = node.parent.partition(":")
    return MemberEnd(parent, int(place), _ENDED_AS[NodeState(node.state)].value, child=node.id)


_ENDED_AS = {
    NodeState.DONE: JobState.DONE,
    NodeState.FAILED: JobState.DEAD,
    NodeState.CANCELLED: JobState.CANCELLED,
}


def handler_of(node: FlowNode) -> NewJob | None:
    """Return the job that a failure of the node brings."""
    return None if node.handler is None else NewJob(**json.loads(node.handler))


def placed(jobs: list[NewJob], first: int) -> list[NewJob]:
    """Return jobs that were added to an open node, in its places from `first` on."""
    return [
        job._replace(flow=flow_position(job.flow)._replace(place=place).text)
        for place, job in enumerate(jobs, first)
        if job.flow is not None
    ]
