"""Additions to a node that are made once, by their names.

Steps: (1) one update of the node assigns the indexes of the members, and stores all jobs as `adding`, (2) the jobs are
stored, (3) a document names the addition as made, (4) the record in `adding` is deleted. After a death past (1) outbox
recovery, or a repeat, continues with (2). A caller reads the node, then the document of (3): an addition in between
changes the node, and so fails the caller's update. In a caller's transaction all of this is one step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from bson import ObjectId

from stanchion.core.values.framing import as_text
from stanchion.stores.cas.entries import new_job_in
from stanchion.stores.cas.push import unrefused
from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.push import Push
from stanchion.stores.mongo.values import id_of
from stanchion.stores.records.flows import ExtendFlow, FlowNode
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules import flows

Open = Callable[[Sequence[FlowNode], Sequence[NewJob]], None]


class Additions:
    """Adds members to nodes, once for each name."""

    def __init__(self, server: Access, pushes: Push) -> None:
        self._server, self._pushes = server, pushes

    def extend(self, more: ExtendFlow, open_inside: Open) -> bool:
        """Store jobs as further members, unless an earlier call did; False, and none stored, if the node is closed."""
        node, once = more.node, more.once or ""
        batch, written_at = ObjectId(), self._server.now()

        def work(on: Place, _again: bool) -> tuple[bool, Document | None]:
            while True:
                found = on.nodes.find_one({"_id": node}, session=on.session)
                if found is None:
                    return False, None
                begun = next((one for one in found.get("adding", ()) if one.get("once") == once), None)
                made = on.values.find_one({"_id": _id(node, once)}, {"_id": 1}, session=on.session)
                if begun is not None or made is not None:
                    return True, begun
                if found["closed"]:
                    return False, None
                self._pushes.refuse_duplicates([*more.jobs, *more.opens.jobs])
                placed = flows.placed(more.jobs, found["size"])
                added: Document = {
                    "batch": batch,
                    "once": once,
                    "written_at": written_at,
                    "jobs": jobs_text(placed),
                    "opens": json.dumps(more.opens, default=as_text),
                }
                update: Document = {"$inc": {"size": len(placed), "version": 1}}
                if not self._server.in_transaction:
                    update["$push"] = {"adding": added}
                seen = {"_id": node, "version": found["version"]}
                if on.nodes.update_one(seen, update, session=on.session).matched_count:
                    return True, added

        done, added = self._server.call(work)
        if added is not None:
            self.complete(node, added, open_inside)
        return done

    def complete(self, node: str, added: Document, open_inside: Open) -> None:
        """Store the jobs of a recorded addition, and that it was made."""
        nodes, inside = json.loads(added["opens"])
        opened = [new_job_in(one) for one in inside]
        self._pushes.push_once([("", [unrefused(job) for job in jobs_in(added)])])
        if nodes or opened:
            open_inside([FlowNode(*one) for one in nodes], [unrefused(job) for job in opened])
        once = added["once"]
        made = {"_id": _id(node, once), "kind": flows.once_kind(node), "name": once, "text": "", "version": 1}
        self._server.call(lambda on, _again: on.insert_missing(on.values, [made]))
        if not self._server.in_transaction:
            done = {"$pull": {"adding": {"batch": added["batch"]}}}
            self._server.call(lambda on, _again: on.nodes.update_one({"_id": node}, done))

    def forget(self, node: str) -> None:
        """Delete the names of a node's additions."""
        self._server.call(lambda on, _again: on.values.delete_many({"kind": flows.once_kind(node)}))


def jobs_in(adding: Document) -> list[NewJob]:
    """Return the members of a recorded addition."""
    return [new_job_in(one) for one in json.loads(adding["jobs"])]


def jobs_text(jobs: Sequence[NewJob]) -> str:
    """Return the text of the members of an addition."""
    return json.dumps(jobs, default=as_text)


def _id(node: str, once: str) -> str:
    return str(id_of(flows.once_kind(node), once))
