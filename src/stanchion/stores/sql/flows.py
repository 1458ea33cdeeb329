"""Flows as rows: what follows when a member ends, in the transaction of the step that ended it.

Rows of nodes are locked after those of jobs, from below upwards, those of each round in the order of their ids, and
before those of gates.
However long a chain and however large a group, the work is done round by round and by whole sets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Executable

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
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.rules import flows
from stanchion.stores.rules.outcomes import cancel
from stanchion.stores.rules.slots import gated, node_gate
from stanchion.stores.sql.admission import Gating
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.flow_statements import FlowStatements
from stanchion.stores.sql.jobs import Step, is_id
from stanchion.stores.sql.push import Pushing
from stanchion.stores.sql.slots import note_freed

T = TypeVar("T")

_KEPT = 7 * 86_400 * SECOND
_PUSHED_AT_ONCE = 5000
_CANCELLED_AT_ONCE = 500
_FORGOTTEN_AT_ONCE = 100


class Flowing(Gating, Pushing):
    """Opens flows, and follows what happens to their members."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._flows = self.dialect.once(FlowStatements)

    # -- flows

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        """Open, extend, close and stop flows, in this order, in one transaction; tell for each whether it was done."""

        def work(run: Runner, again: bool) -> list[bool]:
            return [self._change_flow(run, change, again) for change in changes]

        return self.transactions.enter({job.queue for job in flows.jobs_in(changes)}, tx, work)

    def _change_flow(self, run: Runner, change: FlowChange, again: bool) -> bool:
        match change:
            case OpenFlow(nodes=nodes, jobs=jobs):
                self.open_in(run, nodes, jobs, again=again)
                return True
            case ExtendFlow(node=node, jobs=jobs):
                return is_id(node) and self._extend(run, node, jobs, again)
            case CloseFlow(node=node):
                return is_id(node) and self._close(run, node)
            case StopFlow(root=root):
                return is_id(root) and self._stop(run, root)

    def _extend(self, run: Runner, node: str, jobs: Sequence[NewJob], again: bool) -> bool:
        found = self._locked(run, [node]).get(node)
        if found is None:
            return False
        known = self.known(run, jobs)  # from a call that was never answered
        new = [job for job in jobs if job.id not in known]
        if found.closed:
            return bool(jobs) and not new
        run.change(self._flows.grow, {"id": node, "more": len(new)})
        self.push_all(run, flows.placed(new, found.size), again=again)
        run.woken.update(job.queue for job in new)
        return True

    def _close(self, run: Runner, node: str) -> bool:
        found = self._locked(run, [node]).get(node)
        if found is not None and not found.closed:
            run.change(self._flows.close, {"id": node, "closed": True})
            self._complete(run, [found._replace(closed=True)])
        return found is not None

    def _stop(self, run: Runner, root: str) -> bool:
        found = [_node(row) for row in run.rows(self._flows.of_root, {"root": root})]
        running = [node for node in found if node.state == NodeState.RUNNING]
        before: dict[str, FlowNode] = {}
        for nodes in flows.deepest_first(running):  # as the ends of members do
            before |= self._locked(run, [node.id for node in nodes])
        now = self.clock(run)
        self._count(
            run,
            before,
            {
                node.id: node._replace(state=NodeState.CANCELLED.value, finished_at=now)
                for node in before.values()
                if node.state == NodeState.RUNNING
            },
        )
        return bool(found)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        if not is_id(root):
            return []
        rows = self.database.read(lambda run: run.rows(self._flows.of_root, {"root": root}))
        return [_node(row) for row in rows]

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        if not is_id(node):
            return []
        wanted = {"node": node, "after": after, "most": limit}
        return [MemberEnd(*row) for row in self.database.read(lambda run: run.rows(self._flows.ends, wanted))]

    def open_in(self, run: Runner, nodes: Sequence[FlowNode], jobs: Sequence[NewJob], *, again: bool = False) -> None:
        """Store nodes and jobs, in queues that are made if need be; those nodes that have no members are done."""
        now = self.clock(run)
        new = [node._replace(created_at=now)._asdict() for node in nodes]
        run.change_each(self._flows.insert, [{f"new_{name}": value for name, value in node.items()} for node in new])
        self.queue_rows.make_in(run, {job.queue for job in jobs})
        self.push_all(run, jobs, again=again)
        run.woken.update(job.queue for job in jobs if job.waits_for is None)
        self._complete(run, [node for node in nodes if node.closed and node.ended >= node.size])

    def push_all(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> None:
        """Store jobs, however many, in queues that are there."""
        for some in _portions(jobs, _PUSHED_AT_ONCE):
            self._push_in(run, some, again=again)

    # -- what follows a step

    def follow(self, run: Runner, steps: Sequence[Step]) -> None:
        """Do what follows from these steps: slots that are granted, parts of flows that are done or have failed."""
        concerned = [step for step in steps if step.before.flow is not None or gated(step.before)]
        if not concerned:
            return
        ends = [end for step in concerned if (end := flows.end_of(*step)) is not None]
        self._follow(run, concerned, ends)

    def _follow(self, run: Runner, steps: list[Step], ends: list[MemberEnd]) -> None:
        now = self.clock(run) if ends else 0
        while ends:
            ends = self._end(run, ends, steps, now)
        note_freed(run, steps)

    def _end(self, run: Runner, ends: Sequence[MemberEnd], steps: list[Step], now: int) -> list[MemberEnd]:
        """Take note of how members have ended; return the ends that follow, and add to the steps."""
        before = self._locked(run, {end.node for end in ends})
        known = self._ends_before(run, ends)
        after, fresh, stale = dict(before), {}, set()
        for end in ends:
            place = (end.node, end.place)
            if end.node not in before or not flows.counts_anew(known.get(place), end):
                continue
            if place in known and place not in fresh:
                stale.add(place)
            after[end.node] = flows.advanced(after[end.node], known.get(place), end, now)
            known[place] = fresh[place] = end
        run.change_each(self._flows.drop_end, [{"node": node, "place": place} for node, place in stale])
        self.add_ends(run, list(fresh.values()))
        return self._settle_nodes(run, before, after, steps, now)

    def add_ends(self, run: Runner, ends: Sequence[MemberEnd]) -> None:
        """Write ends that are new."""
        run.change_each(self._flows.add_end, [end._asdict() for end in ends])

    def _complete(self, run: Runner, nodes: Sequence[FlowNode]) -> None:
        """End those of these nodes that are complete, with what follows."""
        if not nodes:
            return
        before, now = self._locked(run, [node.id for node in nodes]), self.clock(run)
        steps: list[Step] = []
        after = {name: flows.completed(node, now) for name, node in before.items()}
        self._follow(run, steps, self._settle_nodes(run, before, after, steps, now))

    def _settle_nodes(
        self, run: Runner, before: Mapping[str, FlowNode], after: Mapping[str, FlowNode], steps: list[Step], now: int
    ) -> list[MemberEnd]:
        """Write nodes as they are now, with what follows where that is an end; return the ends of members by it."""
        self._count(run, before, after)
        ended = [
            node
            for name, node in after.items()
            if before[name].state == NodeState.RUNNING and node.state != NodeState.RUNNING
        ]
        done = [node for node in ended if node.state == NodeState.DONE]
        failed = [node for node in ended if node.state != NodeState.DONE]
        if done:
            self._let_in(run, done, now)
        ends = [end for node in ended if (end := flows.end_of_node(node)) is not None]
        if failed:
            handlers = [job for node in failed if (job := flows.handler_of(node)) is not None]
            if handlers:
                queues = {job.queue for job in handlers}
                self.queue_rows.make_in(run, queues)
                self.push_all(run, handlers)
                run.woken.update(queues)
            ends += self._cancel_waiting(run, failed, steps, now)
        return ends

    def _let_in(self, run: Runner, nodes: Sequence[FlowNode], now: int) -> None:
        gates = {"gates": self.dialect.listed(node_gate(node.id) for node in nodes)}
        woken = {row[0] for row in run.rows(self._flows.wakes, gates)}
        if woken:
            run.change(self._flows.let_in, {**gates, "now": now})
            run.woken |= woken

    def _cancel_waiting(self, run: Runner, nodes: Sequence[FlowNode], steps: list[Step], now: int) -> list[MemberEnd]:
        """Cancel the jobs that wait at the gates of these nodes; return what ends by that, and add to the steps."""
        wanted = {"gates": self.dialect.listed(node_gate(node.id) for node in nodes), "most": _CANCELLED_AT_ONCE}
        ends: list[MemberEnd] = []
        while found := run.rows(self._flows.waiting, wanted):
            before = list(self.jobs.lock(run, [str(row[0]) for row in found]).values())
            after = [step for row in before if (step := cancel(row, now)) is not None]
            self.jobs.put(run, before, after)
            for row, step in zip(before, after, strict=True):
                if (end := flows.end_of(row, step.row)) is not None:
                    ends.append(end)
                if gated(row):
                    steps.append(Step(row._replace(payload=""), step.row._replace(payload="")))
        return ends

    # -- rows

    def _locked(self, run: Runner, ids: Iterable[str]) -> dict[str, FlowNode]:
        """Return those of these nodes that there are, locked."""
        wanted = self.dialect.listed(ids)
        return {row[0]: _node(row) for row in run.rows(self._flows.lock, {"ids": wanted})} if ids else {}

    def _ends_before(self, run: Runner, ends: Sequence[MemberEnd]) -> dict[tuple[str, int], MemberEnd]:
        """Return how these members had ended before, as far as it matters here."""
        places = json.dumps([(end.node, end.place) for end in ends])
        rows = run.rows(self._flows.known, {"places": places})
        return {(node, place): MemberEnd(node, place, state) for node, place, state in rows if state is not None}

    def _count(self, run: Runner, before: Mapping[str, FlowNode], after: Mapping[str, FlowNode]) -> None:
        """Write what has changed of nodes."""
        alike: defaultdict[tuple[int, str, int | None], list[str]] = defaultdict(list)
        for name, node in after.items():
            if node != before[name]:
                alike[node.ended - before[name].ended, node.state, node.finished_at].append(name)
        for (more, state, finished_at), ids in alike.items():
            change = {"more": more, "state": state, "finished_at": finished_at}
            run.change(self._flows.count, {**change, "ids": self.dialect.listed(ids)})

    def forget_flows(self) -> None:
        """Forget flows that ended a week ago, in rounds."""

        def old(run: Runner) -> list[str]:
            wanted = {"oldest": self.clock(run) - _KEPT, "most": _FORGOTTEN_AT_ONCE}
            return [str(row[0]) for row in run.rows(self._flows.old, wanted)]

        def change(statement: Executable, params: Params) -> None:
            self.database.write(lambda run, _again: run.change(statement, params))

        while roots := self.database.read(old):
            for root in roots:
                for node in self.flow_nodes(root):
                    for first in range(0, node.size, _PUSHED_AT_ONCE):
                        some = {"node": node.id, "first": first, "last": first + _PUSHED_AT_ONCE}
                        change(self._flows.forget_ends, some)
                change(self._flows.forget_nodes, {"root": root})


def _node(row: Sequence[Any]) -> FlowNode:
    found = FlowNode(*row)
    return found._replace(closed=bool(found.closed))


def _portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
