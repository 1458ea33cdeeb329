"""Flows in Redis: opened, extended, closed, stopped and forgotten.

Opening a flow: (1) a list names it as being assembled, (2) its nodes are stored, (3) its jobs, waiting ones first, (4)
nodes without members end, (5) the list drops it. After a death in between, outbox recovery cancels the stored parts.

Adding members: (1) a list names them, (2) the node stores their indexes and jobs in one step, (3) the jobs are pushed,
(4) the list drops them. After a death past (2), outbox recovery continues with (3).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from stanchion.core.values.framing import as_text
from stanchion.errors import DuplicateKey
from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.entries import STALE, new_job_in
from stanchion.stores.cas.flows import Flows as Ends
from stanchion.stores.cas.operate import Operator
from stanchion.stores.cas.push import unrefused
from stanchion.stores.records.flows import ExtendFlow, FlowNode
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.server import Call, Server
from stanchion.stores.redis.flows.nodes import Nodes, fields_of
from stanchion.stores.redis.push import Pushes
from stanchion.stores.rules.capacity.slots import node_slot
from stanchion.stores.rules.flows import FLOW_TTL_MICROS, placed
from stanchion.stores.rules.lifecycle.jobs import state_of
from stanchion.stores.rules.set_back import is_ahead

_AT_ONCE = 500
_ASSEMBLY_MICROS_MAX = 600 * SECOND
"""Microseconds after which an unfinished assembly is presumed dead."""


class Assembly:
    """Stores nodes and their jobs."""

    def __init__(self, server: Server, nodes: Nodes, pushes: Pushes, ends: Ends) -> None:
        self._server, self._keys = server, server.keys
        self._nodes, self._pushes, self._ends = nodes, pushes, ends

    def open_nodes(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store missing nodes and their jobs, waiting jobs first; complete nodes without members."""
        self.store(nodes, jobs)

    def store(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> DuplicateKey | None:
        """Store nodes and jobs; return the error to raise if another job has a key."""
        opened = self._store_nodes(nodes)
        if nodes and all(opened):
            return None  # stored before; some of the jobs may be forgotten already
        waiting, others = ([job for job in jobs if (job.waits_kind is None) is free] for free in (False, True))
        # Their order keys put them in the order of their ids, though waiting jobs are stored first.
        now, push = self._server.now(), self._pushes.push
        pushed = push(list(map(unrefused, waiting)), now) + push(list(map(unrefused, others)), now)
        self._server.all([Call(("HSET", self._keys.flow(node.id) + "node", "opened", "1")) for node in nodes])
        empty = [node for node in nodes if node.closed and node.size <= 0]
        ended = map(self._nodes.end, (one.id for one in empty))
        self._ends.end_all({}, [node for node in ended if node is not None])
        refused = (
            DuplicateKey(job.queue, job.key or "", there.id)
            for job, there in zip([*waiting, *others], pushed, strict=True)
            if there.duplicate and job.on_duplicate == "raise"
        )
        return next(refused, None)

    def _store_nodes(self, nodes: Sequence[FlowNode]) -> list[bool]:
        """Store missing nodes; return for each whether its jobs are stored."""
        of_roots: dict[str, list[str]] = {}
        for node in nodes:
            of_roots.setdefault(node.root, []).append(node.id)
        for root, ids in of_roots.items():
            self._server.command("ZADD", self._keys.own("flows"), "NX", self._server.now(), root)
            for part in chunks(ids, _AT_ONCE):
                self._server.command("SADD", self._keys.flow(root) + "nodes", *part)
        return [
            bool(opened)
            for part in chunks(nodes, _AT_ONCE)
            for opened in self._server.all(
                [self._server.script("node", self._keys.flow(node.id), *fields_of(node)) for node in part]
            )
        ]


class Flows:
    """Changes to flows by callers."""

    def __init__(
        self, server: Server, nodes: Nodes, pushes: Pushes, ends: Ends, assembly: Assembly, operator: Operator
    ) -> None:
        self._server, self._keys = server, server.keys
        self._nodes, self._pushes, self._ends = nodes, pushes, ends
        self._assembly, self._operator = assembly, operator

    # -- opening and adding

    def open_flow(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store the nodes of a flow and its jobs."""
        self._pushes.refuse_duplicates(jobs)
        roots = sorted({node.root for node in nodes} | {job.flow_root for job in jobs if job.flow_root is not None})
        if roots:
            now = self._server.now()
            listed = (part for root in roots for part in (now, root))
            self._server.command("ZADD", self._keys.own("assembling"), *listed)
        taken = self._assembly.store(nodes, jobs)
        if taken is not None:  # another caller was faster
            for root in roots:
                self._cancel_flow(root)
        if roots:
            self._server.command("ZREM", self._keys.own("assembling"), *roots)
        if taken is not None:
            raise taken

    def extend_flow(self, more: ExtendFlow) -> bool:
        """Store jobs as further members of an open node, with the next indexes; False, and none stored, if closed."""
        node, jobs, opens, once = more
        if once is not None and self._server.command("HEXISTS", self._keys.flow(node) + "adding", once):
            self._complete(node, once)
            return True
        self._pushes.refuse_duplicates([*jobs, *opens.jobs])
        if not jobs:
            found = self._nodes.nodes_of([node])
            return bool(found) and not found[0].closed
        batch = once or jobs[0].id
        text = json.dumps(jobs if once is None else [jobs, *opens, once], default=as_text)
        listed = f"{node}{FIELD}{batch}"
        self._server.command("ZADD", self._keys.own("adding"), self._server.now(), listed)
        run = self._server.script("extend", self._keys.flow(node), batch, len(jobs), text)
        (answer,) = self._server.all([run])
        if answer and once is not None:
            self._complete(node, once)
        elif answer and answer[1]:
            self._add(node, batch, jobs, answer[0])
        self._server.command("ZREM", self._keys.own("adding"), listed)
        return bool(answer)

    def _add(self, node: str, batch: str, jobs: Sequence[NewJob], first: int) -> None:
        self._pushes.push(list(map(unrefused, placed(jobs, first))))
        self._server.all([self._server.script("added", self._keys.flow(node), batch)])

    def _complete(self, node: str, batch: str) -> None:
        """Store the members of a recorded addition, unless they are."""
        stored = self._server.command("HGET", self._keys.flow(node) + "adding", batch)
        first, _, text = stored.decode().partition(FIELD) if stored else ("", "", "")
        if not text:
            return
        record = json.loads(text)
        if record[-1] != batch:  # not one that is made once
            self._add(node, batch, list(map(new_job_in, record)), int(first))
            return
        jobs, nodes, inside, _ = record
        members = placed(list(map(new_job_in, jobs)), int(first))
        # The record may be applied late, by another process, when the jobs have run and are forgotten.
        self._pushes.push_once([(f"{node}:{batch}", list(map(unrefused, members)))])
        self._assembly.open_nodes([FlowNode(*fields) for fields in nodes], list(map(new_job_in, inside)))
        self._server.all([self._server.script("added", self._keys.flow(node), batch)])

    def close_node(self, node: str) -> bool:
        """Close an open node: it is done when its members are. False if there is no such node."""
        if not self._nodes.nodes_of([node]):
            return False
        ended = self._nodes.end(node, close=True)
        self._ends.end_all({}, [] if ended is None else [ended])
        return True

    def stop_flow(self, root: str) -> bool:
        """Cancel the nodes of a flow that are not final; False if there is no such flow."""
        nodes = self._nodes.flow_nodes(root)
        self._server.all([self._server.script("stop", self._keys.flow(node.id)) for node in nodes])
        for node in self._nodes.nodes_of([root]):
            self._nodes.forget_after(node)
        return bool(nodes)

    # -- recovery and expiry

    def recover(self) -> None:
        """Add the members, and cancel the flows, that dead processes stored partially."""
        self._add_leftovers()
        self._end_abandoned()

    def _add_leftovers(self) -> None:
        adding = self._keys.own("adding")
        for listed in self._server.overdue("adding", self._server.now(), STALE):
            node, batch = listed.decode().split(FIELD)
            self._complete(node, batch)
            self._server.command("ZREM", adding, listed)

    def _end_abandoned(self) -> None:
        """Cancel flows that were never stored completely; one from the future may still be, so it counts as of now."""
        assembling, now = self._keys.own("assembling"), self._server.now()
        for found, begun_at in self._server.overdue("assembling", now, _ASSEMBLY_MICROS_MAX).items():
            if is_ahead(begun_at, now):
                self._server.command("ZADD", assembling, "XX", now, found)
                continue
            self._cancel_flow(found.decode())
            self._server.command("ZREM", assembling, found)

    def _cancel_flow(self, root: str) -> None:
        self.stop_flow(root)
        found = self._nodes.jobs_of_flow(root)
        live = [row.id for now, rows in found for row in rows if not state_of(row, now).final]
        for part in chunks(live, _AT_ONCE):
            self._operator.cancel(part)

    def forget_flows(self) -> None:
        """Forget flows that ended a week ago."""
        now = self._server.now()
        for found in self._server.command("ZRANGEBYSCORE", self._keys.own("flows"), "-inf", now - FLOW_TTL_MICROS):
            root = found.decode()
            node = next(iter(self._nodes.nodes_of([root])), None)
            if node is None and not any(rows for _, rows in self._nodes.jobs_of_flow(root)):
                self._forget(root)
            elif node is None or node.finished_at is None:
                self._server.command("ZADD", self._keys.own("flows"), now, root)
            elif node.finished_at <= now - FLOW_TTL_MICROS:
                self._forget(root)
            else:
                self._nodes.forget_after(node)

    def _forget(self, root: str) -> None:
        key = self._keys.flow(root)
        found = self._server.command("SMEMBERS", key + "nodes")
        ids = [node.decode() for node in found if node.decode() != root]
        for part in chunks([*ids, root], _AT_ONCE):
            names = (self._keys.flow(node) + name for node in part for name in ("ends", "adding", "node"))
            slots = (self._keys.slot(node_slot(node)) + "queues" for node in part)
            self._server.all([Call(("UNLINK", name)) for name in (*slots, *names)])
        self._server.all([Call(("UNLINK", key + name)) for name in ("jobs", "nodes")])
        self._server.command("ZREM", self._keys.own("flows"), root)
