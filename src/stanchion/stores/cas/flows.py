"""What follows from the end of a flow's members, in a store without transactions over several jobs.

The end of a node: (1) it ends, with the last of its members, (2) who waits for it is let in, or cancelled, and its own
end is recorded in its parent, (3) it is marked as followed. After a death past (1), outbox recovery does (2) again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stanchion.stores.cas.entries import Entry, entailed_in, entry_of
from stanchion.stores.cas.jobs import Change, Jobs, Seen, made
from stanchion.stores.cas.portions import PORTION
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
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import flows
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.slots import node_gate


class FlowRows(Protocol):
    """The nodes of a store, and who waits for them: primitives, each one atomic operation that may be repeated."""

    def end_members(self, node: str, ends: Sequence[MemberEnd]) -> FlowNode | None:
        """Record how members of a node have ended, each once: `flows.advanced`.

        Returns the node to the one caller whose call has ended it, None to all others.
        """

    def followed(self, node: FlowNode) -> None:
        """Mark that all that follows from the end of a node is done."""

    def unfollowed(self) -> Iterable[FlowNode]:
        """Return the nodes that ended some seconds ago, `STALE`, and are not marked as followed."""

    def waiting_at(self, slot: str, limit: int) -> list[Seen]:
        """Return up to `limit` of the jobs that wait at the slot of a node."""


class FlowNodes(Protocol):
    """The nodes of a store's flows, as the verbs change them."""

    def open_flow(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store the nodes of a flow and its jobs."""

    def extend_flow(self, node: str, jobs: Sequence[NewJob]) -> bool:
        """Store jobs as further members of an open node."""

    def close_node(self, node: str) -> bool:
        """Take no more members in an open node."""

    def stop_flow(self, root: str) -> bool:
        """End the nodes of a flow that are not final as cancelled."""


def change_flows(nodes: FlowNodes, changes: Iterable[FlowChange]) -> list[bool]:
    """Open, extend, close and stop flows, one after the other; tell for each whether it was done."""
    return [_change_flow(nodes, change) for change in changes]


def _change_flow(nodes: FlowNodes, change: FlowChange) -> bool:
    match change:
        case OpenFlow():
            nodes.open_flow(change.nodes, change.jobs)
            return True
        case ExtendFlow():
            return nodes.extend_flow(change.node, change.jobs)
        case CloseFlow():
            return nodes.close_node(change.node)
        case StopFlow():
            return nodes.stop_flow(change.root)


class Flows:
    """Nodes of flows as their members end."""

    def __init__(self, jobs: Jobs, rows: FlowRows, slots: Slots, push: Callable[[Sequence[NewJob]], object]) -> None:
        self.jobs, self.rows, self._slots, self._push = jobs, rows, slots, push

    def end_all(self, ended: Mapping[str, Sequence[MemberEnd]], nodes: Sequence[FlowNode] = ()) -> None:
        """Record how members of nodes have ended, and do what follows: one after the other, as flows may be deep.

        `nodes` are such that have ended before.
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
        # Only now: whoever dies before leaves what has not been done for the next recovery.
        for node in followed:
            self.rows.followed(node)
        self._slots.free([hold for entry in entries for hold in entailed_in(entry).free])
        if entries:
            self.jobs.delete_entries(entries)

    def follow(self, node: FlowNode, entries: list[Entry]) -> list[tuple[str, Sequence[MemberEnd]]]:
        """Let in, or cancel, who waits for a node that has ended; return the ends to be recorded, its own too.

        The `entries` of those cancelled are added to.
        """
        if node.state == NodeState.FAILED and (handler := flows.handler_of(node)) is not None:
            self._push([handler])
        ends: list[tuple[str, Sequence[MemberEnd]]] = []
        while waiting := self.rows.waiting_at(node_gate(node.id), PORTION):
            now = self.jobs.now()
            if node.state == NodeState.DONE:
                self.jobs.compare_and_set([Change(seen, claim_rules.let_in(seen.row, now)) for seen in waiting])
                continue
            cancelled = self._cancel_waiting(waiting, now)
            entries += cancelled
            ends += [(end.node, [end]) for entry in cancelled for end in entailed_in(entry).ends]
        if (end := flows.end_of_node(node)) is not None:
            ends.append((end.node, [end]))
        return ends

    def _cancel_waiting(self, waiting: Sequence[Seen], now: int) -> list[Entry]:
        """Cancel jobs that wait for their flow; return the entries."""
        changes = []
        for seen in waiting:
            step = outcome_rules.cancel(seen.row, now)
            if step is not None:
                entry = entry_of(seen.row, step.row, step.counted, None, now)
                changes.append(Change(seen, step.row, step.counted, entry))
        return made(changes, self.jobs.compare_and_set(changes))

    def recover(self) -> None:
        """Do what follows from nodes whose process died before it had."""
        self.end_all({}, list(self.rows.unfollowed()))
