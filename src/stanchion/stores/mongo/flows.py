"""Flows: their nodes, and the jobs that are their leaves.

A flow is stored in steps: (1) its nodes, marked as `assembling`, (2) its jobs, those that wait first, (3) the mark is
removed. After a death in between, a flow that has been assembling for too long is cancelled; one that a job has gone
on as is completed by that job's duty.

Members that are added to a node: (1) they get their places and are noted with the node, as `adding`, in one update,
(2) they are stored, (3) the note is struck off. After a death past (1) the sweep does the rest. In a transaction of
the caller all this is one step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from bson import ObjectId
from pymongo.errors import BulkWriteError

from stanchion.errors import DuplicateKey
from stanchion.stores.cas.mixins.flows import STALE
from stanchion.stores.mongo.client.documents import Document, up_to
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.flow_ends import Ending, node_document, node_in
from stanchion.stores.records.flows import Node, NodeState
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.rules import flows

_ABANDONED = 600 * SECOND
_KEPT = 7 * 86_400 * SECOND
_PART = 1000
_PIECE = 2 << 20
"""Characters that a node's document has room for, at up to 4 bytes each and with one more job of the largest kind."""
_AROUND = 500


class Flowing(Ending):
    """Opens, extends, closes, stops and forgets flows."""

    def open_flow(self, nodes: Sequence[Node], jobs: Sequence[NewJob], tx: Any = None) -> None:
        where = self if tx is None else self.inside(tx)
        stamp = where._insert_nodes(nodes)
        try:
            where._assemble(nodes, jobs)
        except DuplicateKey:
            where._take_back_nodes(stamp)
            raise

    def open_nodes(self, nodes: Sequence[Node], jobs: Sequence[NewJob]) -> None:
        self._insert_nodes(nodes)
        open_ones = {"_id": {"$in": [node.id for node in nodes]}, "assembling": {"$exists": True}}
        if self.server.call(lambda on, _again: on.nodes.find_one(open_ones, {"_id": 1})) is not None:
            self._assemble(nodes, jobs)

    def _insert_nodes(self, nodes: Sequence[Node]) -> ObjectId:
        """Store those nodes that are not there yet, as being assembled under the stamp that is returned."""
        now, stamp = self.now(), ObjectId()
        marks = {"version": 0, "stamp": stamp, **({} if self.server.in_transaction else {"assembling": now})}
        fresh = [{**node_document(node._replace(created_at=now)), **marks} for node in nodes]

        def work(on: Place, _again: bool) -> None:
            if self.server.in_transaction:  # where a duplicate would end it
                there = on.nodes.find({"_id": {"$in": [node.id for node in nodes]}}, {"_id": 1}, session=on.session)
                known = {one["_id"] for one in there}
                if left := [one for one in fresh if one["_id"] not in known]:
                    on.nodes.insert_many(left, session=on.session)
                return
            try:
                on.nodes.insert_many(fresh, ordered=False)
            except BulkWriteError as error:
                duplicates(error)

        if nodes:
            self.server.call(work)
        return stamp

    def _take_back_nodes(self, stamp: ObjectId) -> None:
        self.server.call(lambda on, _again: on.nodes.delete_many({"stamp": stamp}, session=on.session))

    def _assemble(self, nodes: Sequence[Node], jobs: Sequence[NewJob]) -> None:
        self._store(jobs)
        ended: list[Node] = []
        for one in nodes:
            # One that has ended already did so before all who wait for it were there.
            node, _ = self.change_node(one.id, lambda node: flows.completed(node, self.now()))
            ended += [node] if node is not None and node.state != NodeState.RUNNING else []
        self.end_all({}, ended)
        assembled = {"_id": {"$in": [node.id for node in nodes]}}
        if nodes and not self.server.in_transaction:
            self.server.call(lambda on, _again: on.nodes.update_many(assembled, {"$unset": {"assembling": ""}}))

    def _store(self, jobs: Sequence[NewJob]) -> None:
        for part in _in_parts(jobs):
            self.push(part)

    # -- open nodes

    def extend_flow(self, node: str, jobs: Sequence[NewJob], tx: Any = None) -> bool:
        where = self if tx is None else self.inside(tx)
        return all(where._add(node, part) for part in _in_pieces(jobs))

    def _add(self, node: str, jobs: list[NewJob]) -> bool:
        mark, noted_at = ObjectId(), self.now()

        def work(on: Place, _again: bool) -> tuple[list[NewJob], list[ObjectId]] | None:
            while True:
                found = on.nodes.find_one({"_id": node}, session=on.session)
                if found is None:
                    return None
                # An earlier try, of this call or of a caller who was not answered, has given them their places. It is
                # asked after the node was read: what is noted since fails the update.
                notes = [(note["mark"], _jobs_in(note)) for note in found.get("adding", ())]
                noted = {job.id: job for _, listed in notes for job in listed}
                wanted = {"_id": {"$in": [job.id for job in jobs]}}
                there = {one["_id"] for one in on.jobs.find(wanted, {"_id": 1}, session=on.session)}
                known = [noted[job.id] for job in jobs if job.id in noted]
                fresh = [job for job in jobs if job.id not in noted and job.id not in there]
                marks = [mark for mark, listed in notes if any(job in known for job in listed)]
                if not fresh and (known or there):
                    return known, marks
                if found["closed"]:
                    return None
                placed = flows.placed(fresh, found["size"])
                update: Document = {"$inc": {"size": len(fresh), "version": 1}}
                if not self.server.in_transaction:
                    note = {"mark": mark, "noted_at": noted_at, "jobs": json.dumps(placed)}
                    update["$push"] = {"adding": note}
                seen = {"_id": node, "version": found["version"]}
                if on.nodes.update_one(seen, update, session=on.session).matched_count:
                    return known + placed, [*marks, mark]

        added = self.server.call(work)
        if added is None:
            return False
        placed, marks = added
        self._store(placed)
        self._added(node, marks)
        return True

    def _added(self, node: str, marks: list[ObjectId]) -> None:
        done = {"$pull": {"adding": {"mark": {"$in": marks}}}}
        if marks and not self.server.in_transaction:
            self.server.call(lambda on, _again: on.nodes.update_one({"_id": node}, done))

    def close_node(self, node: str) -> bool:
        found, ended = self.change_node(node, lambda one: flows.completed(one._replace(closed=True), self.now()))
        if found is not None and ended:
            self.end_all({}, [found])
        return found is not None

    # -- whole flows

    def stop_flow(self, root: str) -> bool:
        now = self.now()
        going_on = {"root": root, "state": NodeState.RUNNING.value}
        stopped = {"$set": {"state": NodeState.CANCELLED.value, "finished_at": now}, "$inc": {"version": 1}}

        def work(on: Place, _again: bool) -> bool:
            on.nodes.update_many(going_on, stopped)
            return on.nodes.find_one({"root": root}, {"_id": 1}) is not None

        return self.server.call(work)

    def nodes(self, root: str) -> list[Node]:
        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.nodes.find({"root": root}).sort("_id", 1))

        return [node_in(one) for one in self.server.call(work)]

    def forget_flows(self) -> None:
        """Forget flows that ended a week ago."""
        ended = {"finished_at": up_to(self.now() - _KEPT), "$expr": {"$eq": ["$_id", "$root"]}}
        found = self.server.call(lambda on, _again: list(on.nodes.find(ended, {"_id": 1})))
        for root in (one["_id"] for one in found):
            for node in self.nodes(root):
                self.server.call(lambda on, _again: on.ends.delete_many({"node": node.id}))  # noqa: B023
            self.server.call(lambda on, _again: on.nodes.delete_many({"root": root, "_id": {"$ne": root}}))  # noqa: B023
            self.server.call(lambda on, _again: on.nodes.delete_one({"_id": root}))  # noqa: B023

    # -- after a death

    def sweep(self) -> None:
        super().sweep()
        now = self.now()
        adding = {"adding.noted_at": {"$lt": now - STALE}}
        for one in self.server.call(lambda on, _again: list(on.nodes.find(adding, {"adding": 1}))):
            for note in one["adding"]:
                self._store(_jobs_in(note))
                self._added(one["_id"], [note["mark"]])
        abandoned = {"assembling": up_to(now - _ABANDONED)}
        roots = self.server.call(lambda on, _again: on.nodes.distinct("root", abandoned))
        for root in roots:
            self._abandon(root)

    def _abandon(self, root: str) -> None:
        """Cancel a flow that was stored by halves."""
        self.stop_flow(root)
        live = {"flow": {"$gte": f"{root}:", "$lt": f"{root};"}, "live": True}
        found = self.server.call(lambda on, _again: list(on.jobs.find(live, {"_id": 1})))
        self.cancel([one["_id"] for one in found])
        whole = {"root": root}
        self.server.call(lambda on, _again: on.nodes.update_many(whole, {"$unset": {"assembling": ""}}))


def _in_parts(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Yield jobs as they are stored: first those that may be refused, all at once, then those that wait."""
    first = [job for job in jobs if job.on_duplicate == "raise" and job.key is not None]
    if first:
        yield first
    known = {job.id for job in first}
    rest = sorted((job for job in jobs if job.id not in known), key=lambda job: job.waits_for is None)
    for start in range(0, len(rest), _PART):
        yield rest[start : start + _PART]


def _in_pieces(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Yield jobs as they are added to a node: all at once, unless they don't fit into its document."""
    piece, size = list[NewJob](), 0
    for job in jobs:
        if size > _PIECE:
            yield piece
            piece, size = [], 0
        piece.append(job)
        size += len(job.payload) + len(job.headers or "") + _AROUND
    yield piece


def _jobs_in(note: Document) -> list[NewJob]:
    return [NewJob(*one) for one in json.loads(note["jobs"])]
