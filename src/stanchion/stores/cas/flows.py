"""Consequences of member ends in a store without transactions over several jobs.

The end of a node: (1) it ends, with the last of its members, (2) the jobs that wait for it continue, or are cancelled,
and its own end is recorded in its parent, (3) it is marked as followed. After a death past (1), outbox recovery repeats
(2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stanchion.stores.cas.chunks import CHUNK
from stanchion.stores.cas.entries import Entry, entailed_in, entry_of
from stanchion.stores.cas.jobs import Change, Jobs, Seen, made
from stanchion.stores.cas.slots import Slots
from stanchion.stores.records.flows import (
    CloseFlow,
    ExtendFlow,
    FlowChange,
    FlowNode,
    MemberEnd,
    NodeState,
    OpenFlow,
    StopFlow,
)
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules import flows
from stanchion.stores.rules.capacity.slots import node_slot
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules


class FlowRows(Protocol):
    """Primitives on the nodes of a store and the jobs that wait for them; each is atomic and may be repeated."""

    def end_members(self, node: str, ends: Sequence[MemberEnd]) -> FlowNode | None:
        """Record member ends of a node, each once: `flows.advanced`.

        Returns the node to the one caller whose call has ended it, None to all others.
        """

    def followed(self, node: FlowNode) -> None:
        """Mark a node as followed: all consequences of its end are done."""

    def unfollowed(self) -> Iterable[FlowNode]:
        """Return the nodes that ended at least `STALE` ago and are not marked as followed."""

    def waiting_at(self, slot: Slot, limit: int) -> list[Seen]:
        """Return up to `limit` jobs that wait for the slot of a node."""


class FlowNodes(Protocol):
    """Changes to the nodes of flows, one method per kind."""

    def open_flow(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store the nodes of a flow and its jobs."""

    def extend_flow(self, more: ExtendFlow) -> bool:
        """Store jobs as further members of an open node."""

    def close_node(self, node: str) -> bool:
        """Close an open node to further members."""

    def stop_flow(self, root: str) -> bool:
        """Cancel the nodes of a flow that are not final."""


def change_flows(nodes: FlowNodes, changes: Iterable[FlowChange]) -> list[bool]:
    """Open, extend, close and stop flows, in order; return for each whether it was done."""
    return [_change_flow(nodes, change) for change in changes]


def _change_flow(nodes: FlowNodes, change: FlowChange) -> bool:
    match change:
        case OpenFlow():
            nodes.open_flow(change.nodes, change.jobs)
            return True
        case ExtendFlow():
            return nodes.extend_flow(change)
        case CloseFlow():
            return nodes.close_node(change.node)
        case StopFlow():
            return nodes.stop_flow(change.root)


class Flows:
    """Applies member ends to nodes, and their consequences."""

    def __init__(self, jobs: Jobs, rows: FlowRows, slots: Slots, push: Callable[[Sequence[NewJob]], object]) -> None:
        self.jobs, self.rows, self._slots, self._push = jobs, rows, slots, push

    def end_all(self, ended: Mapping[str, Sequence[MemberEnd]], nodes: Sequence[FlowNode] = ()) -> None:
        """Record member ends of nodes and apply their consequences: iteratively, because flows may be deep.

        `nodes`: nodes that ended before and are not followed.
        """
        left, open_ends, followed = list(nodes), list(ended.items()), list[FlowNode]()
        entries: list[Entry] = []
        while left or open_ends:
            if left:
                followed.append(left.pop())
                open_ends += self.follow(followed[-1], entries)
            else:
                node = self.rows.end_members(*open_ends.pop())
                left += [] if node is None else [node]
        # Marked last: after a death before this, the next recovery completes the rest.
        for node in followed:
            self.rows.followed(node)
        self._slots.free([hold for entry in entries for hold in entailed_in(entry).free])
        if entries:
            self.jobs.delete_entries(entries)

    def follow(self, node: FlowNode, entries: list[Entry]) -> list[tuple[str, Sequence[MemberEnd]]]:
        """Let the jobs that wait for an ended node continue, or cancel them; return the member ends to record, its own
        too.

        Appends the entries of cancelled jobs to `entries`.
        """
        if node.state == NodeState.FAILED and (handler := flows.failure_job(node)) is not None:
            self._push([handler])
        ends: list[tuple[str, Sequence[MemberEnd]]] = []
        while waiting := self.rows.waiting_at(node_slot(node.id), CHUNK):
            if node.state == NodeState.DONE:
                self.jobs.compare_and_set([Change(seen, claim_rules.let_in(seen.row, seen.at)) for seen in waiting])
                continue
            cancelled = self._cancel_waiting(waiting)
            entries += cancelled
            ends += [(end.node, [end]) for entry in cancelled for end in entailed_in(entry).ends]
        if (end := flows.end_of_node(node)) is not None:
            ends.append((end.node, [end]))
        return ends

    def _cancel_waiting(self, waiting: Sequence[Seen]) -> list[Entry]:
        """Cancel jobs that wait for their flow; return their outbox entries."""
        changes = []
        for seen in waiting:
            step = outcome_rules.cancel(seen.row, seen.at)
            if step is not None:
                entry = entry_of(seen.row, step.row, step.counted, None, seen.at)
                changes.append(Change(seen, step.row, step.counted, entry))
        return made(changes, self.jobs.compare_and_set(changes))

    def recover(self) -> None:
        """Apply the consequences of ended nodes that dead processes left unfinished."""
        self.end_all({}, list(self.rows.unfollowed()))
