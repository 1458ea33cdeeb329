"""Why a part of a flow has failed: the member at fault, found by how the members of its nodes have ended."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stanchion.context.context import Context
from stanchion.flows.flow_failure import FlowFailure
from stanchion.flows.results import Values
from stanchion.jobs.job import Job, JobState
from stanchion.stores.records.flows import FlowNode, MemberEnd, NodeState
from stanchion.stores.records.jobs import JobRow


def failure_of_flow(context: Context, root: str, nodes: Sequence[FlowNode]) -> FlowFailure:
    """Return the failure of a flow that has failed."""
    return _failure(context, root, nodes, root)


def failure_for(context: Context, row: JobRow) -> FlowFailure | None:
    """Return the failure of the part whose `on_failure` a job is; None for other jobs."""
    if row.flow_root is None or row.flow_node is not None or row.flow_after is not None:
        return None
    nodes = context.store.flow_nodes(row.flow_root)
    part = next((node.id for node in nodes if _handler(node) == row.id), None)
    return None if part is None else _failure(context, row.flow_root, nodes, part)


def _handler(node: FlowNode) -> str | None:
    return None if node.on_failure is None else str(json.loads(node.on_failure)["id"])


def _failure(context: Context, root: str, nodes: Sequence[FlowNode], part: str) -> FlowFailure:
    end = _culprit(context, root, nodes, _within(context, part, nodes))
    if end is None or end.state != JobState.DEAD:
        # A part that had not begun has failed by an earlier one, and its own members are cancelled.
        earlier = _culprit(context, root, nodes, nodes)
        end = earlier if end is None or (earlier is not None and earlier.state == JobState.DEAD) else end
    return _described(context, end)


def _within(context: Context, part: str, nodes: Sequence[FlowNode]) -> list[FlowNode]:
    """Return the nodes of a part, inner and earlier ones first: members, steps of chains, continuations of its jobs."""
    known = {node.id: node for node in nodes}
    shows = {node.id: json.loads(node.definition or "{}") for node in nodes}
    below = {node.id: [known[step] for step in shows[node.id].get("steps", ()) if step in known] for node in nodes}
    by = context.store.fetch([shows[node.id]["by"] for node in nodes if "by" in shows[node.id]])
    for node in nodes:
        above = None if node.parent is None else node.parent.partition(":")[0]
        if above is None and (adder := by.get(shows[node.id].get("by", ""))) is not None:
            above = adder.flow_node
        if above in below:
            below[above].append(node)
    found, further = list[FlowNode](), [known[part]]
    while further:
        node = further.pop()
        found.append(node)
        further += below[node.id]
    return found[::-1]


def _culprit(context: Context, root: str, nodes: Sequence[FlowNode], among: Sequence[FlowNode]) -> MemberEnd | None:
    """Return the end of the member of these nodes that failed first, as far as known; a dead one before a cancelled."""
    failed, cancelled = [node for node in among if node.state == NodeState.FAILED], dict[str, MemberEnd]()
    values = Values(context, root, nodes)
    for node in sorted(failed, key=lambda node: node.finished_at or 0):
        for page in values.pages(node.id):
            dead = [end for end in page if end.job is not None and end.state == JobState.DEAD]
            if dead:
                return _first(context, dead)
            for end in page:
                if end.job is not None and end.state == JobState.CANCELLED:
                    cancelled.setdefault(node.id, end)
    # A job that is cancelled ends the parts behind it at the same time.
    return next((cancelled[node.id] for node in failed if node.id in cancelled), None)


def _first(context: Context, dead: Sequence[MemberEnd]) -> MemberEnd:
    if len(dead) == 1:
        return dead[0]
    rows = context.store.fetch([end.job for end in dead if end.job is not None])

    def died_at(end: MemberEnd) -> float:
        row = rows.get(end.job or "")
        return float("inf") if row is None or row.finished_at is None else row.finished_at

    return min(dead, key=died_at)


def _described(context: Context, end: MemberEnd | None) -> FlowFailure:
    if end is None or end.job is None:
        return FlowFailure(None, None, "its members are no longer in history")
    row = context.store.fetch([end.job]).get(end.job)
    if row is None:
        return FlowFailure(None, end.job, f"{end.state}; its error was not kept")
    errors = Job(context, row, JobState.DEAD).errors
    return FlowFailure(row.task, end.job, errors[-1]["error"] if errors else str(end.state))
