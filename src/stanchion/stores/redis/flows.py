"""Flows in Redis: each node has keys of its own, those of the root name all nodes and jobs of the flow.

Opening a flow: (1) it is noted as being assembled, (2) its nodes, (3) its jobs, those that wait first, (4) nodes
without members end, (5) the note is struck off. After a death in between, `sweep` cancels what was stored.

Adding members: (1) noted, (2) places and jobs in the node, in one step, (3) the jobs, (4) struck off. After a death
past (2), `sweep` goes on with (3).

The end of a node: (1) noted, (2) the end, (3) what it entails, (4) marked as followed, (5) struck off. After a death
past (2), `sweep` goes on with (3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from stanchion.errors import DuplicateKey
from stanchion.stores.cas.flows import change_flows
from stanchion.stores.cas.mixins.flows import STALE
from stanchion.stores.records.flows import FlowChange, FlowNode, MemberEnd, NodeState
from stanchion.stores.records.jobs import SECOND, JobState, NewJob
from stanchion.stores.records.query import Find
from stanchion.stores.redis.client.rows import FIELD
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import portions
from stanchion.stores.redis.nodes import Nodes, fields_of, node_in
from stanchion.stores.redis.push import refuse_to_join
from stanchion.stores.rules.flows import placed, standing
from stanchion.stores.rules.slots import node_gate

_AT_ONCE = 500
_ASSEMBLED = 600 * SECOND
"""A flow that takes longer to be opened will never be."""
_NOTED = 3600 * SECOND
"""For so long nobody holds back between noting that a node may end and ending it."""
_KEPT = 7 * 86_400 * SECOND


class Flowing(Nodes):
    """Nodes, their members, and what follows from their ends."""

    # -- opening

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        """Open, extend, close and stop flows, one after the other; tell for each whether it was done."""
        if tx is not None:
            refuse_to_join()
        return change_flows(self, changes)

    def open_flow(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store the nodes of a flow and its jobs."""
        self.refuse_duplicates(jobs)
        roots = sorted({node.root for node in nodes} | {standing(job.flow).root for job in jobs if job.flow})
        if roots:
            now = self.now()
            self.server.command("ZADD", self.own_key("assembling"), *(part for root in roots for part in (now, root)))
        taken = self._open(nodes, jobs)
        if taken is not None:  # by somebody who was quicker
            for root in roots:
                self._cancel_flow(root)
        if roots:
            self.server.command("ZREM", self.own_key("assembling"), *roots)
        if taken is not None:
            raise taken

    def refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""
        keyed = [job for job in jobs if job.key is not None]
        asked = [Call(("HGET", self.key(job.queue) + "keys", job.key)) for job in keyed]
        coming: dict[tuple[str, str | None], str] = {}
        for job, stored in zip(keyed, self.server.all(asked), strict=True):
            first = coming.setdefault((job.queue, job.key), job.id)
            holder = stored.decode() if stored else first
            if holder != job.id and job.on_duplicate == "raise":
                raise DuplicateKey(job.queue, job.key or "", holder)

    def open_nodes(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        self._open(nodes, jobs)

    def _open(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> DuplicateKey | None:
        """Store nodes and jobs; return what is to be raised for a key that another job has."""
        opened = self._store_nodes(nodes)
        if nodes and all(opened):
            return None  # stored before, be it long ago: some of the jobs may be forgotten already
        waiting, others = ([job for job in jobs if (job.waits_for is None) is free] for free in (False, True))
        pushed = self.push(list(map(_kept, waiting))) + self.push(list(map(_kept, others)))
        self.server.all([Call(("HSET", self.flow_key(node.id) + "node", "opened", "1")) for node in nodes])
        empty = [node for node in nodes if node.closed and node.size <= 0]
        self.end_all({}, [node for node in map(self._end, (one.id for one in empty)) if node is not None])
        refused = (
            DuplicateKey(job.queue, job.key or "", there.id)
            for job, there in zip([*waiting, *others], pushed, strict=True)
            if there.duplicate and job.on_duplicate == "raise"
        )
        return next(refused, None)

    def _store_nodes(self, nodes: Sequence[FlowNode]) -> list[bool]:
        """Store nodes that are not there yet; tell for each whether its jobs are stored."""
        of_roots: dict[str, list[str]] = {}
        for node in nodes:
            of_roots.setdefault(node.root, []).append(node.id)
        for root, ids in of_roots.items():
            self.server.command("ZADD", self.own_key("flows"), "NX", self.now(), root)
            for part in portions(ids, _AT_ONCE):
                self.server.command("SADD", self.flow_key(root) + "nodes", *part)
        return [
            bool(opened)
            for part in portions(nodes, _AT_ONCE)
            for opened in self.server.all(
                [self.server.script("node", self.flow_key(node.id), *fields_of(node)) for node in part]
            )
        ]

    # -- adding

    def extend_flow(self, node: str, jobs: Sequence[NewJob]) -> bool:
        """Store jobs as further members of an open node, in its next places; False, and none stored, if closed."""
        self.refuse_duplicates(jobs)
        if not jobs:
            found = self.nodes_of([node])
            return bool(found) and not found[0].closed
        mark, text = jobs[0].id, json.dumps(jobs)
        noted = f"{node}{FIELD}{mark}"
        self.server.command("ZADD", self.own_key("adding"), self.now(), noted)
        run = self.server.script("extend", self.flow_key(node), mark, len(jobs), text)
        (answer,) = self.server.all([run])
        if answer and answer[1]:
            self._add(node, mark, jobs, answer[0])
        self.server.command("ZREM", self.own_key("adding"), noted)
        return bool(answer)

    def _add(self, node: str, mark: str, jobs: Sequence[NewJob], first: int) -> None:
        self.push(list(map(_kept, placed(list(jobs), first))))
        self.server.all([self.server.script("added", self.flow_key(node), mark)])

    def close_node(self, node: str) -> bool:
        """Close an open node: it is done when its members are. False when there is none of that id."""
        if not self.nodes_of([node]):
            return False
        ended = self._end(node, close=True)
        self.end_all({}, [] if ended is None else [ended])
        return True

    # -- ending

    def end_members(self, node: str, ends: Sequence[MemberEnd]) -> FlowNode | None:
        finished = None
        for part in portions(ends, _AT_ONCE):
            finished = self._end(node, part) or finished
        return finished

    def _end(self, node: str, ends: Sequence[MemberEnd] = (), *, close: bool = False) -> FlowNode | None:
        """Record ends, and return the node if that has ended it."""
        key = self.flow_key(node)
        texts = [
            text
            for end in ends
            for text in (end.place, end.state, FIELD.join((end.job or "", end.child or "", end.result or "")))
        ]
        flags = ("1" if close else "",)

        def run(noted: str) -> Any:
            return self.server.call(
                lambda again: self.server.run("end", key, noted, *flags, "1" if again else "", *texts)
            )

        answer = run("")
        if answer[0] == b"note":
            self.server.all([self.enlist("ending", node)])
            answer = run("1")
        return node_in(node, answer[1]) if answer[0] == b"ended" else None

    def followed(self, node: FlowNode) -> None:
        self.server.all([self.server.script("followed", self.flow_key(node.id))])
        if node.id == node.root:
            self._forget_after(node)
        self.server.command("UNLINK", self.gate_key(node_gate(node.id)) + "queues")
        self.server.command("ZREM", self.own_key("ending"), node.id)

    def unfollowed(self) -> Iterator[FlowNode]:
        now, ending = self.now(), self.own_key("ending")
        noted = self.server.command("ZRANGEBYSCORE", ending, "-inf", now - STALE)
        long_ago = set(self.server.command("ZRANGEBYSCORE", ending, "-inf", now - _NOTED))
        for part in portions(noted, _AT_ONCE):
            for found, fields in zip(part, self.stored([node.decode() for node in part]), strict=True):
                node = node_in(found.decode(), fields) if fields else None
                if node is None or b"followed" in fields or (_running(node) and found in long_ago):
                    self.server.command("ZREM", ending, found)
                elif not _running(node) and (node.finished_at or 0) <= now - STALE:
                    yield node

    def stop_flow(self, root: str) -> bool:
        """End those nodes of a flow that are not final as cancelled; False when there is no such flow."""
        nodes = self.flow_nodes(root)
        self.server.all([self.server.script("stop", self.flow_key(node.id)) for node in nodes])
        for node in self.nodes_of([root]):
            self._forget_after(node)
        return bool(nodes)

    # -- after a death, and after a week

    def sweep(self) -> None:
        """Do again what a process that died may have left half done."""
        for queue in self.queue_names():
            self.deliver(queue)  # first: a job that waits in a queue of another slot has to be there when it is let in
        self._add_leftovers()
        self._end_abandoned()
        super().sweep()

    def _add_leftovers(self) -> None:
        adding = self.own_key("adding")
        for noted in self.server.command("ZRANGEBYSCORE", adding, "-inf", self.now() - STALE):
            node, mark = noted.decode().split(FIELD)
            stored = self.server.command("HGET", self.flow_key(node) + "adding", mark)
            first, _, text = stored.decode().partition(FIELD) if stored else ("", "", "")
            if text:
                self._add(node, mark, [NewJob(*fields) for fields in json.loads(text)], int(first))
            self.server.command("ZREM", adding, noted)

    def _end_abandoned(self) -> None:
        """Cancel flows that were never stored as a whole."""
        assembling = self.own_key("assembling")
        for found in self.server.command("ZRANGEBYSCORE", assembling, "-inf", self.now() - _ASSEMBLED):
            self._cancel_flow(found.decode())
            self.server.command("ZREM", assembling, found)

    def _cancel_flow(self, root: str) -> None:
        self.stop_flow(root)
        for part in portions([row.id for row in self.find_in_flow(Find(flow=root, states=_LIVE))], _AT_ONCE):
            self.cancel(part)

    def _forget_after(self, root: FlowNode) -> None:
        self.server.all([self.enlist("flows", root.id, at=root.finished_at, known=True)])

    def forget_flows(self) -> None:
        """Forget flows that ended a week ago."""
        now = self.now()
        for found in self.server.command("ZRANGEBYSCORE", self.own_key("flows"), "-inf", now - _KEPT):
            root = found.decode()
            node = next(iter(self.nodes_of([root])), None)
            if node is None and next(self.find_in_flow(Find(flow=root)), None) is None:
                self._forget(root)
            elif node is None or node.finished_at is None:
                self.server.command("ZADD", self.own_key("flows"), now, root)
            elif node.finished_at <= now - _KEPT:
                self._forget(root)
            else:
                self._forget_after(node)

    def _forget(self, root: str) -> None:
        key = self.flow_key(root)
        found = self.server.command("SMEMBERS", key + "nodes")
        ids = [node.decode() for node in found if node.decode() != root]
        for part in portions([*ids, root], _AT_ONCE):
            names = (self.flow_key(node) + name for node in part for name in ("ends", "adding", "node"))
            gates = (self.gate_key(node_gate(node)) + "queues" for node in part)
            self.server.all([Call(("UNLINK", name)) for name in (*gates, *names)])
        self.server.all([Call(("UNLINK", key + name)) for name in ("jobs", "nodes")])
        self.server.command("ZREM", self.own_key("flows"), root)


_LIVE = tuple(state for state in JobState if not state.final)


def _kept(job: NewJob) -> NewJob:
    """Return a job that is not refused for a duplicate: others of its flow are stored by then."""
    return job._replace(on_duplicate="return") if job.on_duplicate == "raise" else job


def _running(node: FlowNode) -> bool:
    return node.state == NodeState.RUNNING
