"""Reservation of queued jobs under a token, and the jobs that a token holds."""

from __future__ import annotations

from typing import Final

from bson import ObjectId
from pymongo import UpdateMany
from pymongo.errors import OperationFailure

from stanchion.stores.fields.jobs import UNCLAIMED
from stanchion.stores.mongo.claims.lanes import QueueState
from stanchion.stores.mongo.claims.mending import is_misfit, mend, named
from stanchion.stores.mongo.client.documents import Document, event, row_of
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.claims import DIVIDED, Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.rules.lifecycle.claims import in_claim_order

_CLAIMED: Final[Document] = dict.fromkeys(UNCLAIMED, 0)
"""All fields of a job, without the ones that no worker needs."""
_OF_ONE_ITEM: Final[Document] = {"items": None}
_CHUNK: Final[Document] = {"items": {"$exists": True}}
Update = tuple[Document, Document | list[Document]]
"""A filter, and an update of the jobs that meet it."""


class Reservations:
    """Reserves queued jobs, and finds the jobs that a token holds."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def take(self, claim: Claim, state: QueueState, ids: list[str]) -> list[JobRow]:
        """Reserve the jobs among these that are queued and due; return them in the order of the ids."""
        if {str} != set(map(type, ids)):
            ids = self._server.call(lambda on, _again: named(on, ids))
        due: Document = {"queue": claim.queue, "state": QUEUED}
        if claim.delivery != DIVIDED:
            due |= {"run_at": {"$lte": state.now}}
        mine = {"_id": {"$in": ids}, "token": claim.token, "started_at": state.now}
        places = {job: place for place, job in enumerate(ids)}
        updates: list[Update] = [
            ({"_id": {"$in": some}, **due}, _reserving(one, state)) for one, some in _by_worker(claim, ids)
        ]
        for such, update in updates:
            if "$push" in update:
                such |= _OF_ONE_ITEM

        def work(on: Place, again: bool) -> list[JobRow]:
            try:
                taken = _updated(on, updates, len(ids))
            except OperationFailure as error:
                if not is_misfit(error):
                    raise
                mend(on, ids)  # jobs updated before that one have the token already
                taken = _updated(on, updates, len(ids)) or 1
            found = on.jobs.find(mine, _CLAIMED) if taken or again else ()
            return sorted((row_of(one, whole=True) for one in found), key=lambda row: places[row.id])

        return self._server.call(work)

    def held(self, claim: Claim) -> list[JobRow]:
        """Return the jobs that an earlier try of this claim has reserved."""
        held = {"live": True, "queue": claim.queue, "state": JobState.RUNNING.value, "token": claim.token}
        found = self._server.call(lambda on, _again: list(on.jobs.find(held, _CLAIMED)))
        rows = [row_of(one, whole=True) for one in found]
        return in_claim_order(rows, claim)

    def ids_reserved(self, queue: str, token: str) -> list[str]:
        """Return the ids of the running jobs of a queue that are held under a token, sorted."""
        in_force = [{"lease_until": None}, {"lease_until": {"$gt": self._server.now()}}]
        held = {"state": JobState.RUNNING.value, "token": token, "queue": queue, "$or": in_force}
        return self._server.call(
            lambda on, _again: [one["_id"] for one in on.jobs.find(held, {"_id": 1}).sort("_id", 1)]
        )


def _updated(on: Place, updates: list[Update], jobs: int) -> int:
    """Carry updates out; return the number of jobs that they matched. `jobs`: the number that they name.

    Those of one item come first. The others are chunks, or another claim has got them.
    """
    found = (
        on.jobs.update_many(*updates[0]).matched_count
        if len(updates) == 1
        else on.jobs.bulk_write([UpdateMany(*one) for one in updates], ordered=False).matched_count
    )
    if found == jobs:
        return found
    chunks: list[Update] = [
        ({**such, **_CHUNK}, _with_items(update))
        for such, update in updates
        if isinstance(update, dict) and "$push" in update
    ]
    return found + _updated(on, chunks, 0) if chunks else found


def _with_items(update: Document) -> list[Document]:
    """Return an update that reserves chunks, each of which counts its items: their number is in the document."""
    changes: Document = {name: {"$literal": value} for name, value in update["$set"].items()}
    for name, more in update["$inc"].items():
        changes[name] = {"$add": [{"$ifNull": [f"${name}", 0]}, more]}
    reserved = {name: {"$literal": value} for name, value in update["$push"]["events"].items()}
    reserved["number"] = {"$cond": [{"$in": [{"$type": "$items"}, ["int", "long"]]}, "$items", 1]}
    changes["events"] = {"$concatArrays": [{"$ifNull": ["$events", []]}, [reserved]]}
    return [{"$set": changes}, {"$unset": list(update["$unset"])}]


def _by_worker(claim: Claim, ids: list[str]) -> list[tuple[Claim, list[str]]]:
    """Divide jobs by the workers that the claim names for them; each part with the claim as that worker's."""
    if not claim.ids:
        return [(claim, ids)]
    workers, parts = claim.workers, dict[str, list[str]]()
    for job in ids:
        parts.setdefault(workers[job], []).append(job)
    return [(claim.of(worker), some) for worker, some in parts.items()]


def _reserving(claim: Claim, state: QueueState) -> Document:
    """Return the update that reserves jobs: `rules.lifecycle.claims.claimed` for all of them."""
    held: Document = {"state": JobState.RUNNING.value, "token": claim.token, "started_at": state.now}
    if claim.worker is None:
        lease = state.settings.lease if claim.lease is None else claim.lease
        held["lease_until"] = state.now + int(lease * SECOND)
        if claim.holder is not None:
            held["worker"] = claim.holder
    else:
        held |= {"worker": claim.worker, "held_by": claim.worker}
    if claim.delivery is not None:
        held["delivery"] = claim.delivery
    update: Document = {"$set": held, "$inc": {"attempts": 1, "version": 1}, "$unset": {"progress": ""}}
    if claim.counted:
        update["$push"] = {"events": event(ObjectId(), claim.queue, "reserved")}
    return update
