"""Claims: due jobs reserved, within the limits of the queue.

Steps of a claim, one command each: (1) the settings of the queue and the clock, (2) which leases have run out and
which jobs are next, (3) one update that reserves those of them that are still queued, each on its own, (4) which of
them it got. After a death past (3) the jobs are held by a token that nobody knows: their lease runs
out, or their worker is missed.

The index of queued jobs is read in order: within a priority the due jobs come first, and the server goes on to the next
priority at the first that is not due. So scheduled jobs, however many and however important, cost one step per
priority.

Under `max_rate` or `max_running`, and in a queue that has lanes, (3) and (4) are done under the claim lock, see
`lanes.py`. A claimer that comes back too late, and finds the lock gone to another, gives back what it has reserved.
A queue without lanes that is found to hold jobs in some has lanes from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bson import ObjectId

from stanchion.stores.cas.claim import Parked
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.mongo.client.documents import (
    Document,
    claim_order,
    event,
    queued,
    row_of,
    up_to,
)
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import make_queue
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.lanes import ClaimLocks, Lanes, QueueState, rotated
from stanchion.stores.mongo.parking import PARKED_AT_ONCE, PARKED_FEW, Parking, passing
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.rules.slots import HOLDER_BOOST

_EXPIRED_AT_ONCE = 500
_LANE_MAX = 1 << 30


class Obtained(NamedTuple):
    """Jobs that a claim has got; `in_limits`: within the limits of the queue."""

    rows: list[JobRow]
    state: QueueState
    retry_in: float | None = None
    in_limits: bool = True


class DueJobs:
    """Reserves and parks due jobs."""

    def __init__(
        self, server: Access, locks: ClaimLocks, lanes: Lanes, parking: Parking, lost: LostJobs, outcomes: Outcomes
    ) -> None:
        self._server, self._locks, self._lanes = server, locks, lanes
        self._parking, self._lost, self._outcomes = parking, lost, outcomes

    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs, whatever slots they need."""
        if claim.repeat and (held := self._held(claim)):
            return Claimed(held)
        obtained = self._obtain(claim)
        if obtained.in_limits:
            return Claimed(obtained.rows, obtained.retry_in)
        self._outcomes.settle([Rollback(row.id, claim.token, 0.0, refund=True) for row in obtained.rows])
        return Claimed([], 0.0)

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for one of `claim.full`, up to one that does not."""
        return self._parking.park(PARKED_AT_ONCE, claim, began, alone=alone)

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Park a few of them, before others are passed over."""
        return self._parking.park(PARKED_FEW, claim, began, alone=False)

    def _held(self, claim: Claim) -> list[JobRow]:
        """Return what an earlier try of this claim has reserved."""
        held = {"live": True, "queue": claim.queue, "state": JobState.RUNNING.value, "token": claim.token}
        rows = [row_of(one) for one in self._server.call(lambda on, _again: list(on.jobs.find(held)))]
        return sorted(rows, key=lambda row: (-row.priority, row.run_at, row.id))

    def _obtain(self, claim: Claim) -> Obtained:
        """Get the next due jobs, under the claim lock where the queue has limits or lanes."""
        state = self._locks.state_of(claim.queue)
        ids = self._next(claim, state, claim.limit) if claim.limit else []
        if ids is None:
            state = self._with_lanes(claim.queue)
            ids = self._next(claim, state, claim.limit) or []
        if not ids or state.settings.paused:
            return Obtained([], state)
        if not state.settings.throttled and claim.lanes is None:
            return Obtained(self._take(claim, state, ids, claim.limit), state)
        lock = self._locks.acquire(state, claim.limit)
        if lock is None:
            return Obtained([], state)
        if not lock.starts:
            return Obtained([], state, lock.next_in(0))
        if lock.state is not state:  # others had theirs meanwhile
            state = lock.state
            ids = self._next(claim, state, claim.limit) or []
        allowed = self._locks.allowed(lock)
        rows = self._take(claim, state, ids[:allowed], allowed) if allowed > 0 else []
        offset: Document = {f"served.{_range(claim)}": rows[-1].lane} if rows and _by_lanes(claim, state) else {}
        in_limits = self._locks.release(lock, len(rows), offset)
        used_up = len(rows) == lock.starts < claim.limit
        return Obtained(rows, state, lock.next_in(len(rows)) if used_up else None, in_limits)

    def _with_lanes(self, queue: str) -> QueueState:
        """Make a queue one that has lanes, and return it."""

        def work(on: Place, _again: bool) -> None:
            make_queue(on, queue)
            on.queues.update_one({"_id": queue}, {"$set": {"laned": True}})

        self._server.call(work)
        return self._locks.state_of(queue)

    def _next(self, claim: Claim, state: QueueState, limit: int, offset: int | None = None) -> list[str] | None:
        """Return the ids of the next due jobs, in order, after expired leases were taken back.

        `offset`: the lane that was served last, if it is not that of the state. None when a queue that has no lanes
        holds jobs in some.
        """
        if not _by_lanes(claim, state):
            return self._next_unlaned(state, limit, claim.full)
        while lost := self._server.call(
            lambda on, _again: _ids(on.jobs.find(_expired(state), {"_id": 1}).limit(_EXPIRED_AT_ONCE))
        ):
            self._lost.free(lost, {})
        first, last = claim.lanes or (UNLANED, _LANE_MAX)
        lanes = [lane for lane in self._lanes.used(claim.queue) if first <= lane <= last]
        if offset is None:
            offset = state.document.get("served", {}).get(_range(claim), UNLANED)
        return self._lanes.due_by_turns(
            claim.queue, state.now, rotated(lanes, offset), limit, passing(claim.queue, claim.full)
        )

    def _next_unlaned(self, state: QueueState, limit: int, full: Sequence[str]) -> list[str] | None:
        queue = state.settings.name
        expired: list[Document] = [{"$match": _expired(state)}, {"$limit": _EXPIRED_AT_ONCE}]
        stray: list[Document] = [
            {"$match": {**queued(queue), "lane": {"$gt": UNLANED}}},
            {"$limit": 1},
            {"$project": {"_id": 1, "stray": {"$literal": True}}},
        ]
        due: list[Document] = [
            {"$match": {**queued(queue), "lane": UNLANED, "run_at": {"$lte": state.now}, **passing(queue, full)}},
            {"$sort": {"priority": -1, "run_at": 1, "_id": 1}},
            {"$limit": limit},
            {"$project": {"priority": 1, "run_at": 1}},
        ]

        def work(on: Place, _again: bool) -> list[Document]:
            if full:  # this claim has looked for the others before
                return on.documents(on.jobs, *due)
            others = ({"$unionWith": {"coll": on.jobs.name, "pipeline": one}} for one in (stray, due))
            return on.documents(on.jobs, *expired, {"$project": {"_id": 1, "expired": {"$literal": True}}}, *others)

        while True:
            found = self._server.call(work)
            lost = [one["_id"] for one in found if "expired" in one]
            if not lost:
                return None if any("stray" in one for one in found) else _ids(sorted(found, key=claim_order))
            self._lost.free(lost, {})

    def _take(self, claim: Claim, state: QueueState, ids: list[str], limit: int) -> list[JobRow]:
        """Get these jobs; where others were quicker, those that come next."""
        rows: list[JobRow] = []
        while ids:
            found = self._take_once(claim, state, ids)
            rows += found
            if len(found) == len(ids):
                break
            ids = self._next(claim, state, limit - len(rows), rows[-1].lane if rows else None) or []
        return rows

    def _take_once(self, claim: Claim, state: QueueState, ids: list[str]) -> list[JobRow]:
        due = {"_id": {"$in": ids}, "queue": claim.queue, "state": QUEUED, "run_at": {"$lte": state.now}}
        mine = {"_id": {"$in": ids}, "token": claim.token, "started_at": state.now}
        places = {job: place for place, job in enumerate(ids)}

        def work(on: Place, again: bool) -> list[JobRow]:
            taken = 0
            for such, update in _reserving(claim, state):
                if taken < len(ids):
                    taken += on.jobs.update_many({**due, **such}, update).matched_count
            found = on.jobs.find(mine) if taken or again else ()
            return sorted(map(row_of, found), key=lambda row: places[row.id])

        return self._server.call(work)


def _reserving(claim: Claim, state: QueueState) -> list[tuple[Document, Document]]:
    """Return the updates that reserve jobs, `rules.claims.claimed` for all at once, each with a filter for its jobs."""
    reserved, boosted = _reserved(claim, state), _reserved(claim, state)
    boosted["$inc"]["priority"] = -HOLDER_BOOST
    low, high = {"priority": {"$lte": HOLDER_BOOST // 2}}, {"priority": {"$gt": HOLDER_BOOST // 2}}
    return [(low, reserved), (high, boosted)]


def _reserved(claim: Claim, state: QueueState) -> Document:
    held: Document = {"state": JobState.RUNNING.value, "token": claim.token, "started_at": state.now}
    if claim.worker is None:
        lease = state.settings.lease if claim.lease is None else claim.lease
        held["lease_until"] = state.now + int(lease * SECOND)
    else:
        held |= {"worker": claim.worker, "held_by": claim.worker}
    update: Document = {"$set": held, "$inc": {"attempts": 1, "version": 1}, "$unset": {"progress": ""}}
    if claim.counted:
        update["$push"] = {"events": event(ObjectId(), claim.queue, "reserved")}
    return update


def _by_lanes(claim: Claim, state: QueueState) -> bool:
    """Tell whether lanes have to be asked one by one."""
    return state.settings.laned or claim.lanes is not None


def _range(claim: Claim) -> str:
    """Return under which name a queue keeps the round-robin offset, of all or of the claim's range."""
    return "all" if claim.lanes is None else "{}-{}".format(*claim.lanes)


def _expired(state: QueueState) -> Document:
    return {"lease_until": up_to(state.now)}


def _ids(found: Iterable[Document]) -> list[str]:
    return [one["_id"] for one in found]
