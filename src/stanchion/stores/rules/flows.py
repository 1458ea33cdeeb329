"""The rules of flows as pure functions: a node and a member end in; the next node and what follows out.

A flow is a tree of nodes whose leaves are jobs. A job stores its flow position. A job that follows a node waits for
that node's slot. A node may be a member of another node.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from stanchion.stores.records.flows import ExtendFlow, FlowChange, FlowNode, MemberEnd, NodeState, OpenFlow
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob

FLOW_TTL_MICROS = 7 * 86_400 * SECOND
"""Microseconds between a flow's end and its deletion."""


class FlowPosition(NamedTuple):
    """The position of a job in a flow, in the fields of a job.

    The flow's id; the node that counts the job, and its index there, if one does; the node whose value it receives, in
    the form of `flows.plan.After.text`, if it receives any.
    """

    flow_root: str
    flow_node: str | None = None
    flow_index: int | None = None
    flow_after: str | None = None


def position_of(job: JobRow | NewJob) -> FlowPosition | None:
    """Return the position of a job in its flow; None if it belongs to none."""
    if job.flow_root is None:
        return None
    return FlowPosition(job.flow_root, job.flow_node, job.flow_index, job.flow_after)


def jobs_in(changes: Sequence[FlowChange]) -> list[NewJob]:
    """Return the jobs that these changes may store."""
    return [job for change in changes for job in _jobs_of(change)]


def _jobs_of(change: FlowChange) -> Sequence[NewJob]:
    match change:
        case OpenFlow(jobs=jobs):
            return jobs
        case ExtendFlow(jobs=jobs, opens=opens):
            return [*jobs, *opens.jobs]
    return ()


def end_of(before: JobRow, after: JobRow | None, counted: str | None = None) -> MemberEnd | None:
    """Return the member end that a step of a job causes; None if the job has not ended, or belongs to no node.

    A deleted job counts as cancelled. A job that was `buried` counts as dead, even where it lives on as a dead letter.
    """
    node, index = before.flow_node, before.flow_index
    if node is None or index is None or before.finished_at is not None:
        return None
    if after is None:
        return MemberEnd(node, index, JobState.CANCELLED.value, before.id)
    if after.finished_at is not None:
        return MemberEnd(node, index, after.state, before.id, result=after.result)
    if counted == "buried":
        return MemberEnd(node, index, JobState.DEAD.value, before.id)
    return None


def counts_anew(known: MemberEnd | None, end: MemberEnd) -> bool:
    """Return True if an end is to be recorded: the member's first, or the success of a re-driven one."""
    return known is None or (known.state != JobState.DONE and end.state == JobState.DONE)


def advanced(node: FlowNode, known: MemberEnd | None, end: MemberEnd, now: int) -> FlowNode:
    """Return the node after a member has ended; `known`: the end recorded before, if any."""
    if known is None:
        node = node._replace(ended=node.ended + 1)
    if node.state == NodeState.RUNNING and end.state != JobState.DONE:
        return node._replace(state=NodeState.FAILED.value, finished_at=now)
    return completed(node, now)


def completed(node: FlowNode, now: int) -> FlowNode:
    """Return the node, marked done if all its members are."""
    if node.state == NodeState.RUNNING and node.closed and node.ended >= node.size:
        return node._replace(state=NodeState.DONE.value, finished_at=now)
    return node


def stopped(node: FlowNode, now: int) -> FlowNode:
    """Return the node, cancelled unless it has ended."""
    if node.state != NodeState.RUNNING:
        return node
    return node._replace(state=NodeState.CANCELLED.value, finished_at=now)


def has_ended(before: FlowNode, after: FlowNode) -> bool:
    """Return True if a change has ended the node, so that consequences follow."""
    return before.state == NodeState.RUNNING and after.state != NodeState.RUNNING


def deepest_first(nodes: Sequence[FlowNode]) -> list[list[FlowNode]]:
    """Return the nodes of a flow by depth in its tree, deepest first, as member ends propagate."""
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
    """Return the end of a finished node as a member of its parent; None if it has no parent."""
    if node.parent is None or node.state == NodeState.RUNNING:
        return None
    parent, _, index = node.parent.partition(":")
    return MemberEnd(parent, int(index), _ENDED_AS[NodeState(node.state)].value, child=node.id)


_ENDED_AS = {
    NodeState.DONE: JobState.DONE,
    NodeState.FAILED: JobState.DEAD,
    NodeState.CANCELLED: JobState.CANCELLED,
}


def failure_job(node: FlowNode) -> NewJob | None:
    """Return the job to enqueue when the node fails."""
    return None if node.on_failure is None else NewJob(**json.loads(node.on_failure))


def failure_text(job: NewJob) -> str:
    """Return the text that a node keeps of the job to enqueue when it fails."""
    return json.dumps({name: value for name, value in job._asdict().items() if value is not None})


def once_kind(node: str) -> str:
    """Return the kind of the versioned values that record the changes of a node which are made once, by their names."""
    return f"once:{node.replace('-', '')}"


def placed(jobs: Sequence[NewJob], first: int) -> list[NewJob]:
    """Return jobs added to an open node, with indexes from `first` on."""
    return [job._replace(flow_index=index) for index, job in enumerate(jobs, first)]
