"""Flows as rows: the consequences of a member end, in the transaction of the step that ended it.

Node rows are locked after job rows and before slot rows: from the leaves upward, each round in the order of ids. Work
is done in rounds of whole sets, so long chains and large groups need few statements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import text

from stanchion.stores.fields.sql import STOPS_WAITING
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
from stanchion.stores.records.slots import NODE
from stanchion.stores.records.values import ValueChange
from stanchion.stores.rules import flows
from stanchion.stores.rules.capacity.slots import uses_slots
from stanchion.stores.rules.lifecycle.jobs import Transition
from stanchion.stores.rules.lifecycle.outcomes import cancel
from stanchion.stores.sql.engine import schema
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.jobs.flow_ends import FlowEnds
from stanchion.stores.sql.jobs.push import Pushes, push_all
from stanchion.stores.sql.rows.jobs import Step, is_id
from stanchion.stores.sql.rows.past_waits import with_wait
from stanchion.stores.sql.rows.slots import record_freed
from stanchion.stores.sql.rows.tables import Tables
from stanchion.stores.sql.values import Values

_COLUMNS = ", ".join(f"CAST({name} AS CHAR(36))" if name in {"id", "root"} else name for name in FlowNode._fields)
_CANCELLED_AT_ONCE = 500
_FORGOTTEN_AT_ONCE = 100


class FlowStatements:
    """The statements about nodes and the jobs that wait for them, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids, for_these = dialect.among("id", "ids", "uuid"), dialect.among("waits_name", "nodes")
        waiting = f"waits_kind = '{NODE}' AND waits_queue = '' AND {for_these}"
        index, key = dialect.by("stanchion_jobs_waiting"), dialect.by("PRIMARY")

        # -- nodes
        self.insert = dialect.insert_ignoring(
            schema.flow_nodes,
            {column.name: param(f"new_{column.name}", column.type) for column in schema.flow_nodes.columns},
        )
        self.lock = text(f"""
            SELECT {_COLUMNS} FROM stanchion_flow_nodes {key} WHERE {ids}
            ORDER BY stanchion_flow_nodes.id {dialect.locking}
        """)
        self.of_root = text(
            f"SELECT {_COLUMNS} FROM stanchion_flow_nodes WHERE root = :root ORDER BY stanchion_flow_nodes.id"
        )
        self.count = text(f"""
            UPDATE stanchion_flow_nodes {key} SET ended = ended + :more, state = :state, finished_at = :finished_at
            WHERE {ids}
        """)
        self.grow = text("UPDATE stanchion_flow_nodes SET size = size + :more WHERE id = :id")
        self.close = text("UPDATE stanchion_flow_nodes SET closed = :closed WHERE id = :id")
        self.old = text("""
            SELECT CAST(id AS CHAR(36)) FROM stanchion_flow_nodes WHERE finished_at <= :oldest AND id = root
            ORDER BY finished_at LIMIT :most
        """)
        self.forget = text("DELETE FROM stanchion_flow_nodes WHERE root = :root")
        self.forget_made = text(f"DELETE FROM stanchion_values WHERE {dialect.among('kind', 'kinds')}")

        # -- jobs that wait for nodes
        self.wakes = text(f"SELECT DISTINCT queue FROM stanchion_jobs {index} WHERE {waiting}")
        self.let_in = text(f"""
            UPDATE stanchion_jobs {index}
            SET {with_wait(dialect, ":now")}, state = 'queued',
                run_at = CASE WHEN run_at < :now THEN :now ELSE run_at END,
                {STOPS_WAITING}
            WHERE {waiting}
        """)
        self.waiting = text(f"""
            SELECT CAST(id AS CHAR(36)) FROM stanchion_jobs {index} WHERE {waiting} LIMIT :most {dialect.locking}
        """)


class Flows:
    """Opens flows, and applies the ends of their members."""

    def __init__(self, tables: Tables, push: Pushes, ends: FlowEnds, values: Values) -> None:
        self._db, self._transactions, self._jobs, self._queues = tables
        self._push, self._ends, self._values = push, ends, values
        self._statements = tables.db.dialect.once(FlowStatements)

    # -- flows

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        """Open, extend, close and stop flows, in this order, in one transaction; return whether each was done."""

        def work(run: Runner, again: bool) -> list[bool]:
            return [self._change_flow(run, change, again) for change in changes]

        return self._transactions.enter(list(flows.jobs_in(changes)), tx, work)

    def _change_flow(self, run: Runner, change: FlowChange, again: bool) -> bool:
        match change:
            case OpenFlow(nodes=nodes, jobs=jobs):
                self.open_in(run, nodes, jobs, again=again)
                return True
            case ExtendFlow():
                return is_id(change.node) and self._extend(run, change, again)
            case CloseFlow(node=node):
                return is_id(node) and self._close(run, node)
            case StopFlow(root=root):
                return is_id(root) and self._stop(run, root)

    def _extend(self, run: Runner, more: ExtendFlow, again: bool) -> bool:
        node, jobs, opens, once = more
        found = self._locked(run, [node]).get(node)
        if found is None:
            return False
        first = None if once is None else ValueChange(flows.once_kind(node), once, "", 0)
        if first is not None and not self._values.write(run, first):
            return True
        known = self._jobs.stored(run, [job.id for job in jobs])  # stored by an earlier try whose reply was lost
        new = [job for job in jobs if job.id not in known]
        if found.closed:
            if first is not None:
                self._values.take_back(run, first)
            return bool(jobs) and not new
        run.change(self._statements.grow, {"id": node, "more": len(new)})
        push_all(self._push, run, flows.placed(new, found.size), again=again)
        run.woken.update(job.queue for job in new)
        if opens.nodes or opens.jobs:
            self.open_in(run, opens.nodes, opens.jobs, again=again)
        return True

    def _close(self, run: Runner, node: str) -> bool:
        found = self._locked(run, [node]).get(node)
        if found is not None and not found.closed:
            run.change(self._statements.close, {"id": node, "closed": True})
            self._complete(run, [found._replace(closed=True)])
        return found is not None

    def _stop(self, run: Runner, root: str) -> bool:
        found = [_node(row) for row in run.rows(self._statements.of_root, {"root": root})]
        running = [node for node in found if node.state == NodeState.RUNNING]
        before: dict[str, FlowNode] = {}
        for level in flows.deepest_first(running):  # the order of member ends
            before |= self._locked(run, [node.id for node in level])
        now = self._db.clock(run)
        self._count(run, before, {name: flows.stopped(node, now) for name, node in before.items()})
        return bool(found)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        if not is_id(root):
            return []
        rows = self._db.read(lambda run: run.rows(self._statements.of_root, {"root": root}))
        return [_node(row) for row in rows]

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        return self._ends.of_node(node, after, limit) if is_id(node) else []

    def open_in(self, run: Runner, nodes: Sequence[FlowNode], jobs: Sequence[NewJob], *, again: bool = False) -> None:
        """Store nodes and jobs, and the rows of new queues; complete those nodes that have no members."""
        now = self._db.clock(run)
        new = [node._replace(created_at=now) for node in nodes]
        run.change_each(
            self._statements.insert, [{f"new_{name}": value for name, value in node._asdict().items()} for node in new]
        )
        self._queues.make_in(run, {job.queue for job in jobs})
        push_all(self._push, run, jobs, again=again)
        run.woken.update(job.queue for job in jobs if job.waits_for is None)
        self._complete(run, [node for node in nodes if node.closed and node.ended >= node.size])

    # -- consequences of a step

    def put(self, run: Runner, before: Sequence[JobRow], after: Sequence[Transition]) -> None:
        """Write the rows after their transitions, count the steps, and apply the consequences."""
        self._jobs.put(run, before, after)
        self.follow(run, [Step(row, step.row, step.counted) for row, step in zip(before, after, strict=True)])

    def follow(self, run: Runner, steps: Sequence[Step]) -> None:
        """Apply the consequences of these steps: free slots, and complete or fail parts of flows."""
        concerned = [step for step in steps if step.before.flow_node is not None or uses_slots(step.before)]
        if not concerned:
            return
        ends = [end for step in concerned if (end := flows.end_of(*step)) is not None]
        self._follow(run, concerned, ends)

    def _follow(self, run: Runner, steps: list[Step], ends: list[MemberEnd]) -> None:
        now = self._db.clock(run) if ends else 0
        while ends:
            ends = self._end(run, ends, steps, now)
        record_freed(run, steps)

    def _end(self, run: Runner, ends: Sequence[MemberEnd], steps: list[Step], now: int) -> list[MemberEnd]:
        """Store these member ends; return the ends that follow, and append to the steps."""
        before = self._locked(run, {end.node for end in ends})
        known = self._ends.known(run, ends)
        after, fresh, stale = dict(before), {}, set()
        for end in ends:
            position = (end.node, end.index)
            if end.node not in before or not flows.counts_anew(known.get(position), end):
                continue
            if position in known and position not in fresh:
                stale.add(position)
            after[end.node] = flows.advanced(after[end.node], known.get(position), end, now)
            known[position] = fresh[position] = end
        self._ends.drop(run, stale)
        self._ends.add(run, list(fresh.values()))
        return self._settle_nodes(run, before, after, steps, now)

    def _complete(self, run: Runner, nodes: Sequence[FlowNode]) -> None:
        """Complete the nodes without open members, and apply the consequences."""
        if not nodes:
            return
        before, now = self._locked(run, [node.id for node in nodes]), self._db.clock(run)
        steps: list[Step] = []
        after = {name: flows.completed(node, now) for name, node in before.items()}
        self._follow(run, steps, self._settle_nodes(run, before, after, steps, now))

    def _settle_nodes(
        self, run: Runner, before: Mapping[str, FlowNode], after: Mapping[str, FlowNode], steps: list[Step], now: int
    ) -> list[MemberEnd]:
        """Write changed nodes, and apply the consequences of ended ones; return the member ends that follow."""
        self._count(run, before, after)
        ended = [node for name, node in after.items() if flows.has_ended(before[name], node)]
        done = [node for node in ended if node.state == NodeState.DONE]
        failed = [node for node in ended if node.state != NodeState.DONE]
        if done:
            self._let_in(run, done, now)
        ends = [end for node in ended if (end := flows.end_of_node(node)) is not None]
        if failed:
            handlers = [job for node in failed if (job := flows.failure_job(node)) is not None]
            if handlers:
                queues = {job.queue for job in handlers}
                self._queues.make_in(run, queues)
                push_all(self._push, run, handlers)
                run.woken.update(queues)
            ends += self._cancel_waiting(run, failed, steps, now)
        return ends

    def _let_in(self, run: Runner, nodes: Sequence[FlowNode], now: int) -> None:
        done = {"nodes": self._db.dialect.listed(node.id for node in nodes)}
        woken = {row[0] for row in run.rows(self._statements.wakes, done)}
        if woken:
            run.change(self._statements.let_in, {**done, "now": now})
            run.woken |= woken

    def _cancel_waiting(self, run: Runner, nodes: Sequence[FlowNode], steps: list[Step], now: int) -> list[MemberEnd]:
        """Cancel the jobs that wait for these nodes; return the member ends that follow, and append to the steps."""
        wanted = {"nodes": self._db.dialect.listed(node.id for node in nodes), "most": _CANCELLED_AT_ONCE}
        ends: list[MemberEnd] = []
        while found := run.rows(self._statements.waiting, wanted):
            before = list(self._jobs.lock(run, [str(row[0]) for row in found]).values())
            after = [step for row in before if (step := cancel(row, now)) is not None]
            self._jobs.put(run, before, after)
            for row, step in zip(before, after, strict=True):
                if (end := flows.end_of(row, step.row)) is not None:
                    ends.append(end)
                if uses_slots(row):
                    steps.append(Step(row._replace(payload=""), step.row._replace(payload="")))
        return ends

    # -- rows

    def _locked(self, run: Runner, ids: Iterable[str]) -> dict[str, FlowNode]:
        """Return the nodes that exist, locked."""
        wanted = self._db.dialect.listed(ids)
        return {row[0]: _node(row) for row in run.rows(self._statements.lock, {"ids": wanted})} if ids else {}

    def _count(self, run: Runner, before: Mapping[str, FlowNode], after: Mapping[str, FlowNode]) -> None:
        """Write the changes of nodes."""
        alike: defaultdict[tuple[int, str, int | None], list[str]] = defaultdict(list)
        for name, node in after.items():
            if node != before[name]:
                alike[node.ended - before[name].ended, node.state, node.finished_at].append(name)
        for (more, state, finished_at), ids in alike.items():
            change = {"more": more, "state": state, "finished_at": finished_at}
            run.change(self._statements.count, {**change, "ids": self._db.dialect.listed(ids)})

    def forget_old(self) -> None:
        """Delete flows that ended a week ago, in rounds."""

        def old(run: Runner) -> list[str]:
            wanted = {"oldest": self._db.clock(run) - flows.FLOW_TTL_MICROS, "most": _FORGOTTEN_AT_ONCE}
            return [str(row[0]) for row in run.rows(self._statements.old, wanted)]

        while roots := self._db.read(old):
            for root in roots:
                self._forget(root)

    def _forget(self, root: str) -> None:
        """Delete a flow: the ends of its members, what it has made, its nodes."""
        nodes = self.flow_nodes(root)
        for node in nodes:
            self._ends.forget(node.id, node.size)
        made = {"kinds": self._db.dialect.listed(flows.once_kind(node.id) for node in nodes)}
        self._db.write(lambda run, _again: run.change(self._statements.forget_made, made))
        self._db.write(lambda run, _again: run.change(self._statements.forget, {"root": root}))


def _node(row: Row) -> FlowNode:
    found = FlowNode(*row)
    return found._replace(closed=bool(found.closed))
