"""Flows: their nodes, and the jobs that are their leaves.

A flow is stored in steps: (1) its nodes, marked as `assembling`, (2) its jobs, waiting ones first, (3) the mark is
removed. After a death in between, a flow that is too long in assembly is cancelled. One that a job continues as is
completed by that job's outbox entry.

Members are added to a node in steps: (1) one update of the node assigns their indexes and stores them as `adding`, (2)
the jobs are stored, (3) the record in `adding` is deleted. After a death past (1) outbox recovery completes the rest.
In a caller's transaction all of this is one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bson import ObjectId

from stanchion.errors import DuplicateKey
from stanchion.stores.cas.entries import STALE
from stanchion.stores.cas.flows import Flows
from stanchion.stores.mongo.client.documents import Document, overdue, up_to
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.flows.additions import Additions, jobs_in, jobs_text
from stanchion.stores.mongo.flows.ends import FlowEnds, node_document, node_in
from stanchion.stores.records.flows import ExtendFlow, FlowNode, NodeState
from stanchion.stores.records.jobs import SECOND, JobState, NewJob
from stanchion.stores.rules import flows
from stanchion.stores.rules.set_back import AHEAD

_ABANDONED_MICROS = 600 * SECOND
_STORED_AT_ONCE = 1000
_PIECE_CHARACTERS = 2 << 20
"""Characters available in a node's document, at up to 4 bytes each and with one more job of maximum size."""
_AROUND_CHARACTERS = 500


class FlowNodes:
    """Opens, extends, closes, stops and forgets flows."""

    def __init__(
        self,
        server: Access,
        ends: FlowEnds,
        following: Flows,
        push: Callable[[Sequence[NewJob]], object],
        once: Additions,
        cancel: Callable[[Sequence[str]], list[JobState | None]],
    ) -> None:
        self._server, self._ends, self._following = server, ends, following
        self._push, self._once, self._cancel = push, once, cancel

    def open_flow(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store the nodes of a flow and its jobs; a node without members is done immediately."""
        stamp = self._insert_nodes(nodes)
        try:
            self._assemble(nodes, jobs)
        except DuplicateKey:
            self._take_back_nodes(stamp)
            raise

    def open_nodes(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        """Store the rest of a flow for an outbox entry; present nodes and jobs stay as they are."""
        self._insert_nodes(nodes)
        open_ones = {"_id": {"$in": [node.id for node in nodes]}, "assembling": {"$exists": True}}
        if self._server.call(lambda on, _again: on.nodes.find_one(open_ones, {"_id": 1})) is not None:
            self._assemble(nodes, jobs)

    def _insert_nodes(self, nodes: Sequence[FlowNode]) -> ObjectId:
        """Store missing nodes as being assembled, under the stamp that is returned."""
        now, stamp = self._server.now(), ObjectId()
        fields = {"version": 0, "stamp": stamp, **({} if self._server.in_transaction else {"assembling": now})}
        fresh = [{**node_document(node._replace(created_at=now)), **fields} for node in nodes]

        if nodes:
            self._server.call(lambda on, _again: on.insert_missing(on.nodes, fresh))
        return stamp

    def _take_back_nodes(self, stamp: ObjectId) -> None:
        self._server.call(lambda on, _again: on.nodes.delete_many({"stamp": stamp}, session=on.session))

    def _assemble(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        self._store(jobs)
        ended: list[FlowNode] = []
        for one in nodes:
            # A node that has ended already did so before all its waiters were stored.
            node, _ = self._ends.change_node(one.id, lambda node: flows.completed(node, self._server.now()))
            ended += [node] if node is not None and node.state != NodeState.RUNNING else []
        self._following.end_all({}, ended)
        assembled = {"_id": {"$in": [node.id for node in nodes]}}
        if nodes and not self._server.in_transaction:
            self._server.call(lambda on, _again: on.nodes.update_many(assembled, {"$unset": {"assembling": ""}}))

    def _store(self, jobs: Sequence[NewJob]) -> None:
        for part in _in_parts(jobs):
            self._push(part)

    # -- open nodes

    def extend_flow(self, more: ExtendFlow) -> bool:
        """Store jobs as further members of an open node, with the next indexes; False, and none stored, if closed."""
        if more.once is not None:
            return self._once.extend(more, self._open_inside)
        return all(self._add(more.node, part) for part in _in_pieces(more.jobs))

    def _open_inside(self, nodes: Sequence[FlowNode], jobs: Sequence[NewJob]) -> None:
        if self._server.in_transaction:
            self.open_flow(nodes, jobs)
        else:
            self.open_nodes(nodes, jobs)

    def _add(self, node: str, jobs: list[NewJob]) -> bool:
        batch, written_at = ObjectId(), self._server.now()

        def work(on: Place, _again: bool) -> tuple[list[NewJob], list[ObjectId]] | None:
            while True:
                found = on.nodes.find_one({"_id": node}, session=on.session)
                if found is None:
                    return None
                # An earlier try, of this call or of a caller after a lost reply, has assigned their indexes. The
                # jobs are read after the node: a change of the node in between fails the update.
                adding = [(one["batch"], jobs_in(one)) for one in found.get("adding", ()) if "once" not in one]
                placed_before = {job.id: job for _, listed in adding for job in listed}
                wanted = {"_id": {"$in": [job.id for job in jobs]}}
                there = {one["_id"] for one in on.jobs.find(wanted, {"_id": 1}, session=on.session)}
                known = [placed_before[job.id] for job in jobs if job.id in placed_before]
                fresh = [job for job in jobs if job.id not in placed_before and job.id not in there]
                batches = [one for one, listed in adding if any(job in known for job in listed)]
                if not fresh and (known or there):
                    return known, batches
                if found["closed"]:
                    return None
                placed = flows.placed(fresh, found["size"])
                update: Document = {"$inc": {"size": len(fresh), "version": 1}}
                if not self._server.in_transaction:
                    update["$push"] = {"adding": {"batch": batch, "written_at": written_at, "jobs": jobs_text(placed)}}
                seen = {"_id": node, "version": found["version"]}
                if on.nodes.update_one(seen, update, session=on.session).matched_count:
                    return known + placed, [*batches, batch]

        added = self._server.call(work)
        if added is None:
            return False
        placed, batches = added
        self._store(placed)
        self._added(node, batches)
        return True

    def _added(self, node: str, batches: list[ObjectId]) -> None:
        done = {"$pull": {"adding": {"batch": {"$in": batches}}}}
        if batches and not self._server.in_transaction:
            self._server.call(lambda on, _again: on.nodes.update_one({"_id": node}, done))

    def close_node(self, node: str) -> bool:
        """Close an open node: it is done when its members are. False if there is no such node."""
        found, ended = self._ends.change_node(
            node, lambda one: flows.completed(one._replace(closed=True), self._server.now())
        )
        if found is not None and ended:
            self._following.end_all({}, [found])
        return found is not None

    # -- whole flows

    def stop_flow(self, root: str) -> bool:
        """Cancel the nodes of a flow that are not final; False if there is no such flow."""
        now = self._server.now()
        going_on = {"root": root, "state": NodeState.RUNNING.value}
        stopped = {"$set": {"state": NodeState.CANCELLED.value, "finished_at": now}, "$inc": {"version": 1}}

        def work(on: Place, _again: bool) -> bool:
            on.nodes.update_many(going_on, stopped, session=on.session)
            return on.nodes.find_one({"root": root}, {"_id": 1}, session=on.session) is not None

        return self._server.call(work)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, by id."""

        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.nodes.find({"root": root}).sort("_id", 1))

        return [node_in(one) for one in self._server.call(work)]

    def forget(self) -> None:
        """Forget flows that ended a week ago."""
        ended = {"finished_at": up_to(self._server.now() - flows.FLOW_TTL_MICROS), "$expr": {"$eq": ["$_id", "$root"]}}
        found = self._server.call(lambda on, _again: list(on.nodes.find(ended, {"_id": 1})))
        for root in (one["_id"] for one in found):
            for node in self.flow_nodes(root):
                self._server.call(lambda on, _again: on.ends.delete_many({"node": node.id}))  # noqa: B023
                self._once.forget(node.id)
            self._server.call(lambda on, _again: on.nodes.delete_many({"root": root, "_id": {"$ne": root}}))  # noqa: B023
            self._server.call(lambda on, _again: on.nodes.delete_one({"_id": root}))  # noqa: B023

    # -- after a death

    def recover(self) -> None:
        """Store the members that dead processes stored partially, and cancel partially stored flows."""
        now = self._server.now()
        adding = overdue("adding.written_at", now, STALE)
        for one in self._server.call(lambda on, _again: list(on.nodes.find(adding, {"adding": 1}))):
            for added in one["adding"]:
                if "once" in added:
                    self._once.complete(one["_id"], added, self._open_inside)
                else:
                    self._store(jobs_in(added))
                    self._added(one["_id"], [added["batch"]])
        abandoned = overdue("assembling", now, _ABANDONED_MICROS)
        for root in self._server.call(lambda on, _again: on.nodes.distinct("root", abandoned)):
            if not self._begun_now(root, now):
                self._abandon(root)

    def _begun_now(self, root: str, now: int) -> bool:
        """Count a flow from the future, which a live process may be storing, as begun now; False if it is not."""
        ahead = {"root": root, "assembling": {"$gt": now + AHEAD}}
        begun = {"$set": {"assembling": now}}
        return bool(self._server.call(lambda on, _again: on.nodes.update_many(ahead, begun)).matched_count)

    def _abandon(self, root: str) -> None:
        """Cancel a flow that was stored partially."""
        self.stop_flow(root)
        live = {"flow_root": root, "live": True}
        found = self._server.call(lambda on, _again: list(on.jobs.find(live, {"_id": 1})))
        self._cancel([one["_id"] for one in found])
        whole = {"root": root}
        self._server.call(lambda on, _again: on.nodes.update_many(whole, {"$unset": {"assembling": ""}}))


def _in_parts(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Yield jobs in the order of storing: first all that may be refused together, then waiting ones."""
    first = [job for job in jobs if job.on_duplicate == "raise" and job.key is not None]
    if first:
        yield first
    known = {job.id for job in first}
    rest = sorted((job for job in jobs if job.id not in known), key=lambda job: job.waits_kind is None)
    for start in range(0, len(rest), _STORED_AT_ONCE):
        yield rest[start : start + _STORED_AT_ONCE]


def _in_pieces(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Yield jobs in portions that fit into a node's document: normally in one."""
    piece, size = list[NewJob](), 0
    for job in jobs:
        if size > _PIECE_CHARACTERS:
            yield piece
            piece, size = [], 0
        piece.append(job)
        size += len(job.payload) + len(job.headers or "") + _AROUND_CHARACTERS
    yield piece
