"""A flow as a tree of its parts, for display."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from stanchion.context.context import Context
from stanchion.core.names.partition_names import logical_name
from stanchion.stores.records.flows import FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.jobs import state_of

PartKind = Literal["job", "chain", "group", "barrier"]


@dataclass(frozen=True, slots=True)
class FlowPart:
    """A part of a flow: a job, a chain of parts in sequence, or a group or barrier of parallel parts.

    `state`: the job's, or running, done, failed or cancelled. `label`: the job's task, or the queue of a plain payload.
    `ended`, `size`: how many of the members have ended, and how many there are; `members` may hold fewer of a large
    group.
    """

    id: str
    kind: PartKind
    state: str
    label: str
    members: tuple[FlowPart, ...] = ()
    ended: int = 0
    size: int = 0
    is_open: bool = False
    """True for a group that still takes members."""
    on_failure: FlowPart | None = None


def drawn(context: Context, nodes: list[FlowNode], limit: int) -> FlowPart:
    """Return the tree of a flow with these nodes and at most about `limit` jobs."""
    root, store = nodes[0].root, context.store
    rows = store.select(Query(where=(Condition("flow_root", "=", root),), limit=limit)).rows
    return tree_of(nodes, rows, store.now(), lambda node: store.flow_ends(node, limit=limit), limit)


def tree_of(
    nodes: list[FlowNode], rows: list[JobRow], now: int, ends: Callable[[str], list[MemberEnd]], limit: int
) -> FlowPart:
    """Return the tree of a flow with these nodes and jobs.

    `ends`: reads how members of a node ended, where some are not among the jobs. `limit`: of the members of a node.
    """
    return _Drawing(nodes, rows, now, ends, limit).of_node(nodes[0].root)


class _Drawing:
    def __init__(
        self,
        nodes: list[FlowNode],
        rows: list[JobRow],
        now: int,
        ends: Callable[[str], list[MemberEnd]],
        limit: int,
    ) -> None:
        self._ends, self._limit, self._now = ends, limit, now
        self._nodes = {node.id: node for node in nodes}
        self._shows: dict[str, dict[str, Any]] = {node.id: json.loads(node.definition or "{}") for node in nodes}
        self._rows = {row.id: row for row in rows}
        self._members_of: dict[str, dict[int, JobRow | FlowNode]] = defaultdict(dict)
        self._added: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row.flow_node is not None and row.flow_index is not None:
                self._members_of[row.flow_node][row.flow_index] = row
        for node in nodes:
            if node.parent is not None:
                parent, _, number = node.parent.partition(":")
                self._members_of[parent][int(number)] = node
            elif "by" in self._shows[node.id]:
                self._added[self._shows[node.id]["by"]].append(node.id)

    def of_node(self, node_id: str) -> FlowPart:
        node, shows = self._nodes[node_id], self._shows[node_id]
        members = self._members(node)
        on_failure = self._on_failure(node)
        how = shows.get("as", "group" if node.kind == "list" else "chain")
        if how == "chain":
            steps = [self.of_node(one) for one in shows.get("steps", ()) if one in self._nodes]
            return self._part(node, "chain", (*steps, *members), on_failure)
        if how == "call" and len(members) == 1:
            return replace(members[0], on_failure=on_failure)
        return self._part(node, "barrier" if how == "barrier" else "group", members, on_failure)

    def _part(
        self, node: FlowNode, kind: PartKind, members: tuple[FlowPart, ...], on_failure: FlowPart | None
    ) -> FlowPart:
        ended, size = node.ended, node.size
        if kind == "chain":
            ended, size = sum(member.state in _ENDED for member in members), len(members)
        return FlowPart(node.id, kind, node.state, kind, members, ended, size, not node.closed, on_failure)

    def _members(self, node: FlowNode) -> tuple[FlowPart, ...]:
        members = self._members_of[node.id]
        parts = {
            index: self.of_node(member.id) if isinstance(member, FlowNode) else self._of_job(member)
            for index, member in members.items()
        }
        if len(parts) < node.size:  # some have left history, or there are too many
            for end in self._ends(node.id):
                if end.index not in parts and len(parts) < self._limit:
                    parts[end.index] = _of_end(end)
        return tuple(parts[index] for index in sorted(parts))

    def _of_job(self, row: JobRow) -> FlowPart:
        job = FlowPart(row.id, "job", state_of(row, self._now).value, row.task or logical_name(row.queue))
        added = tuple(self.of_node(node) for node in self._added.get(row.id, ()))
        if not added:
            return job
        members = (*added, job)
        return FlowPart(
            row.id, "chain", job.state, "chain", members, sum(one.state in _ENDED for one in members), len(members)
        )

    def _on_failure(self, node: FlowNode) -> FlowPart | None:
        if node.on_failure is None:
            return None
        fields = json.loads(node.on_failure)
        row = self._rows.get(fields["id"])
        state = "" if row is None else state_of(row, self._now).value
        return FlowPart(fields["id"], "job", state, fields.get("task") or fields["queue"])


def _of_end(end: MemberEnd) -> FlowPart:
    return FlowPart(end.job or end.child or "", "job", end.state, "")


_ENDED = frozenset({*(state.value for state in JobState if state.final), "failed"})
