"""Member ends of flow nodes, each counted once.

A member end is a document with the id `node:index`, so it is stored once. It is `uncounted` until counted in three
steps: (1) one update of the node, naming the version read, applies some ends and lists their indexes as `counting`, (2)
these ends are marked as counted, (3) the list is removed. Any process may do (2) and (3), repeatedly: one that finds a
list waits briefly for its owner, and then does them. After a death between the end and (1), the outbox entry is applied
again, and with it (1).

The update that ends a node stores the id of its call in `ended_by`: only that call applies the consequences. Until they
are done, the node is `unfollowed`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from bson import ObjectId
from pymongo import UpdateOne

from stanchion.stores.cas.entries import STALE, key_of
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.mongo.client.documents import Document, overdue, seen_in
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.flows import FlowNode, MemberEnd, NodeState
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules import flows

_COUNTED_AT_ONCE = 1000
_LIST_READS_MAX = 3
"""Reads of an unchanged list after which its process is presumed dead."""
_PAUSE_SECONDS = 0.02

Change = Callable[[FlowNode], FlowNode]


class FlowEnds:
    """Records member ends, and changes nodes by compare-and-set."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def end_members(self, node: str, ends: Sequence[MemberEnd]) -> FlowNode | None:
        """Record member ends of a node, each once; return the node if this call has ended it."""
        call_id, now = ObjectId(), self._server.now()

        def work(on: Place, _again: bool) -> FlowNode | None:
            if on.nodes.find_one({"_id": node}, {"_id": 1}, session=on.session) is None:
                return None
            refused = on.insert_missing(on.ends, [end_document(end) for end in ends])
            if again := [ends[index] for index in refused if ends[index].state == JobState.DONE]:
                on.ends.bulk_write([_success(end) for end in again], ordered=False, session=on.session)
            return _count(on, node, call_id, now)

        return self._server.call(work)

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return up to `limit` member ends of a node, by index, those after the index `after`."""
        wanted = {"node": node, "index": {"$gt": after}}

        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.ends.find(wanted, session=on.session).sort("index", 1).limit(limit))

        return [_end_in(one) for one in self._server.call(work)] if limit else []

    def change_node(self, node: str, change: Change) -> tuple[FlowNode | None, bool]:
        """Change a node; return it, None if there is none, and whether this change ended it."""
        call_id = ObjectId()

        def work(on: Place, _again: bool) -> tuple[FlowNode | None, bool]:
            while True:
                found = on.nodes.find_one({"_id": node}, session=on.session)
                if found is None:
                    return None, False
                before = node_in(found)
                after = change(before)
                if after == before:
                    return after, found.get("ended_by") == call_id
                if _compare_and_set(on, found, after, call_id):
                    return after, _ends(before, after)

        return self._server.call(work)

    def waiting_at(self, slot: Slot, limit: int) -> list[Seen]:
        """Return up to `limit` jobs that wait for the slot of a node."""

        stages = {"$match": {"waits_for": key_of(slot)}}, {"$limit": limit}, {"$addFields": {"now": "$$NOW"}}
        found = self._server.call(lambda on, _again: on.documents(on.jobs, *stages))
        return [seen_in(one, self._server.at(one["now"])) for one in found]

    def followed(self, node: FlowNode) -> None:
        """Mark a node as followed: all consequences of its end are done."""
        one = {"_id": node.id}
        self._server.call(
            lambda on, _again: on.nodes.update_one(one, {"$unset": {"unfollowed": ""}}, session=on.session)
        )

    def unfollowed(self) -> list[FlowNode]:
        """Return the nodes that ended at least `STALE` ago and are not marked as followed."""
        wanted = {"unfollowed": True, **overdue("finished_at", self._server.now(), STALE)}
        return [node_in(one) for one in self._server.call(lambda on, _again: list(on.nodes.find(wanted)))]


def node_document(node: FlowNode) -> Document:
    """Return the document of a node, without the fields of its last step."""
    fields = {"_id" if name == "id" else name: value for name, value in node._asdict().items()}
    return {name: value for name, value in fields.items() if value is not None}


def node_in(document: Document) -> FlowNode:
    """Return the node of a document."""
    fields = {name: document[name] for name in FlowNode._fields[1:] if name in document}
    return FlowNode(id=document["_id"], **fields)


def end_document(end: MemberEnd) -> Document:
    """Return the document of an uncounted end."""
    fields = {name: value for name, value in end._asdict().items() if value is not None}
    return {"_id": f"{end.node}:{end.index}", **fields, "uncounted": end.node}


def _end_in(document: Document) -> MemberEnd:
    return MemberEnd(**{name: document[name] for name in MemberEnd._fields if name in document})


def _success(end: MemberEnd) -> UpdateOne:
    """Return the update that records the success of a member that had ended otherwise before."""
    fields = {name: value for name, value in end._asdict().items() if value is not None}
    return UpdateOne({"_id": f"{end.node}:{end.index}", "state": {"$ne": JobState.DONE.value}}, {"$set": fields})


def _count(on: Place, node: str, call_id: ObjectId, now: int) -> FlowNode | None:
    """Count the uncounted ends of a node; return it if this call has ended it."""
    seen: tuple[int, int] = (0, 0)
    while True:
        found = on.nodes.find_one({"_id": node}, session=on.session)
        if found is None:
            return None
        if "counting" in found:
            times = seen[1] + 1 if seen[0] == found["version"] else 1
            seen = found["version"], times
            if times <= _LIST_READS_MAX:
                time.sleep(_PAUSE_SECONDS * random.random())  # noqa: S311 - spreading load
            else:
                _end_count(on, found)
            continue
        wanted = {"uncounted": node}
        part = list(on.ends.find(wanted, {"index": 1, "state": 1}, session=on.session).limit(_COUNTED_AT_ONCE))
        if part and not _begin_count(on, found, part, call_id, now):
            continue
        if len(part) < _COUNTED_AT_ONCE:
            ended = on.nodes.find_one({"_id": node, "ended_by": call_id}, session=on.session)
            return None if ended is None else node_in(ended)


def _begin_count(on: Place, found: Document, part: Sequence[Document], call_id: ObjectId, now: int) -> bool:
    node = node_in(found)
    for one in part:
        node = flows.advanced(node, None, MemberEnd(node.id, one["index"], one["state"]), now)
    indexes = [one["index"] for one in part]
    if not _compare_and_set(on, found, node, call_id, {"counting": indexes}):
        return False
    _end_count(on, {**found, "version": found["version"] + 1, "counting": indexes})
    return True


def _end_count(on: Place, found: Document) -> None:
    """Mark the listed ends as counted, and remove the list."""
    node = found["_id"]
    counted = {"_id": {"$in": [f"{node}:{index}" for index in found["counting"]]}}
    on.ends.update_many(counted, {"$unset": {"uncounted": ""}}, session=on.session)
    ended = {"$unset": {"counting": ""}, "$inc": {"version": 1}}
    on.nodes.update_one({"_id": node, "version": found["version"]}, ended, session=on.session)


def _compare_and_set(
    on: Place, found: Document, after: FlowNode, call_id: ObjectId, also: Document | None = None
) -> bool:
    """Change a node if it is unchanged since it was read."""
    before, new = node_in(found), node_document(after)
    changed = {name: value for name, value in new.items() if found.get(name) != value} | (also or {})
    if _ends(before, after):
        changed |= {"ended_by": call_id, "unfollowed": True}
    update = {"$set": changed, "$inc": {"version": 1}}
    seen = {"_id": found["_id"], "version": found["version"]}
    return bool(on.nodes.update_one(seen, update, session=on.session).matched_count)


def _ends(before: FlowNode, after: FlowNode) -> bool:
    return before.state == NodeState.RUNNING and after.state != NodeState.RUNNING
