"""Flows, and the steps of jobs: a step grants the slots it frees, and updates the flow of a job it ends."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.push import Pushes
from stanchion.stores.memory.slots import Slots
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
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules import flows as flow_rules
from stanchion.stores.rules.capacity.slots import node_slot
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle.jobs import Transition
from stanchion.stores.rules.lifecycle.outcomes import cancel


class Flows:
    """The nodes of flows and their member ends; every step of a job that may end it passes through here."""

    def __init__(self, jobs: Jobs, slots: Slots, pushes: Pushes) -> None:
        self._jobs, self._slots, self._pushes = jobs, slots, pushes
        self._nodes: dict[str, FlowNode] = {}
        self._ends: dict[str, dict[int, MemberEnd]] = defaultdict(dict)
        self._pending_ends: deque[MemberEnd] = deque()
        self._made_once: dict[str, set[str]] = defaultdict(set)
        """The names of the changes that a node takes once."""

    # -- steps of jobs

    def apply(self, before: JobRow, step: Transition, jobs: Sequence[NewJob] = ()) -> JobRow:
        """Count and apply a step of a job, with the jobs that are stored by it; return the job as it is now."""
        self._jobs.count(step.tallies(before))
        self._jobs.replace(before, step.row, step.counted)
        self._pushes.store(jobs)  # before its slots are passed on: a part comes before those behind its chunk
        self.follow(before, step.row, step.counted)
        return step.row

    def change(self, before: JobRow, after: JobRow, counted: str | None = None) -> None:
        """Store a job after a step, and apply the consequences."""
        self._jobs.replace(before, after, counted)
        self.follow(before, after, counted)

    def follow(self, before: JobRow, after: JobRow | None, counted: str | None = None) -> None:
        """Apply the consequences of a step of a job; `after` is None for its deletion."""
        self._slots.release(before, after)
        if (end := flow_rules.end_of(before, after, counted)) is not None:
            self._pending_ends.append(end)
            if len(self._pending_ends) == 1:  # else an outer call processes them
                self._take_ends()

    # -- verbs

    def change_flows(self, changes: Sequence[FlowChange]) -> list[bool]:
        """Open, extend, close and stop flows, in this order, all or nothing; raise DuplicateKey."""
        self._pushes.refuse_duplicates([job for change in changes for job in self._to_store(change)])
        return [self._change(change) for change in changes]

    def _to_store(self, change: FlowChange) -> Sequence[NewJob]:
        match change:
            case OpenFlow(jobs=jobs):
                return jobs
            case ExtendFlow(node=node, jobs=jobs, opens=opens) if node in self._nodes and not self._nodes[node].closed:
                return () if self._was_made(change) else [*jobs, *opens.jobs]
        return ()

    def _change(self, change: FlowChange) -> bool:
        match change:
            case OpenFlow():
                return self.open(change)
            case ExtendFlow():
                return self._extend(change)
            case CloseFlow():
                return self._close(change)
            case StopFlow():
                return self._stop(change)

    def open(self, flow: OpenFlow) -> bool:
        """Store nodes and jobs; nodes without members are done."""
        now = self._jobs.now()
        for node in flow.nodes:
            self._nodes.setdefault(node.id, node._replace(created_at=now))
        self._pushes.store(flow.jobs)
        for node in flow.nodes:
            self._store(flow_rules.completed(self._nodes[node.id], now))
        self._take_ends()
        return True

    def _extend(self, more: ExtendFlow) -> bool:
        found = self._nodes.get(more.node)
        if found is None:
            return False
        if self._was_made(more):
            return True
        new = [job for job in more.jobs if self._jobs.find(job.id) is None]
        if found.closed:
            return bool(more.jobs) and not new
        self._nodes[found.id] = found._replace(size=found.size + len(new))
        self._pushes.store(flow_rules.placed(new, found.size))
        if more.once is not None:
            self._made_once[more.node].add(more.once)
        return self.open(more.opens)

    def _was_made(self, more: ExtendFlow) -> bool:
        return more.once is not None and more.once in self._made_once.get(more.node, ())

    def _close(self, close: CloseFlow) -> bool:
        found = self._nodes.get(close.node)
        if found is not None and not found.closed:
            self._store(flow_rules.completed(found._replace(closed=True), self._jobs.now()))
            self._take_ends()
        return found is not None

    def _stop(self, stop: StopFlow) -> bool:
        nodes, now = self.flow_nodes(stop.root), self._jobs.now()
        self._nodes |= {node.id: flow_rules.stopped(node, now) for node in nodes}
        return bool(nodes)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, by id."""
        return sorted(node for node in self._nodes.values() if node.root == root)

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return up to `limit` member ends of a node, by index, those after the index `after`."""
        found = self._ends.get(node, {})
        return [found[index] for index in sorted(found) if index > after][:limit]

    def forget(self) -> None:
        """Delete flows that ended long ago."""
        oldest = self._jobs.now() - flow_rules.FLOW_TTL_MICROS
        for root in [node for node in self._nodes.values() if node.id == node.root]:
            if root.finished_at is not None and root.finished_at <= oldest:
                for node in self.flow_nodes(root.id):
                    del self._nodes[node.id]
                    self._ends.pop(node.id, None)
                    self._made_once.pop(node.id, None)

    # -- what follows from the end of a member

    def _take_ends(self) -> None:
        while self._pending_ends:
            self._take_end(self._pending_ends[0])
            self._pending_ends.popleft()

    def _take_end(self, end: MemberEnd) -> None:
        node = self._nodes.get(end.node)
        if node is None:
            return
        ends = self._ends[end.node]
        known = ends.get(end.index)
        if flow_rules.counts_anew(known, end):
            ends[end.index] = end
            self._store(flow_rules.advanced(node, known, end, self._jobs.now()))

    def _store(self, node: FlowNode) -> None:
        """Store a node, and apply the consequences if it has ended."""
        before = self._nodes[node.id]
        self._nodes[node.id] = node
        if not flow_rules.has_ended(before, node):
            return
        now, slot = self._jobs.now(), node_slot(node.id)
        if node.state == NodeState.DONE:
            for row in self._jobs.waiting(slot):
                self._jobs.put(claim_rules.let_in(row, now))
        else:
            if (handler := flow_rules.failure_job(node)) is not None:
                self._pushes.store([handler])
            for row in self._jobs.waiting(slot):
                if (step := cancel(row, now)) is not None:
                    self.apply(row, step)
        if (end := flow_rules.end_of_node(node)) is not None:
            self._pending_ends.append(end)
