"""Claims: due jobs reserved, within the limits of the queue.

Steps of a claim, one command each: (1) read the settings of the queue and the clock, (2) find expired leases and the
next jobs, (3) reserve the jobs that are still queued, each atomically, by one update, (4) read which of them it
got. After a death past (3) an unknown token holds the jobs until their lease expires, or their worker is found dead.

The index of queued jobs is read in order. Within a rank, due jobs come first, and the server moves to the next rank
at the first job that is not due. Scheduled jobs, however many and of whatever priority, thus cost one step per rank.

With `max_rate` or `max_running`, and in a queue with lanes, (3) and (4) run under the claim lock, see `lanes.py`. A
claimer that returns too late, and finds the lock taken by another, gives its jobs back. A push into a lane stores that
the queue has lanes. If upkeep resets that at the same time, the claim that finds jobs in lanes stores it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stanchion.stores.cas.claim import Parked
from stanchion.stores.cas.entries import key_of
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.mongo.claims.expired import AT_ONCE, ExpiredLeases
from stanchion.stores.mongo.claims.lanes import ClaimLocks, Lanes, QueueState, rotated
from stanchion.stores.mongo.claims.parking import PARKED_AT_ONCE, PARKED_FEW, Parking, passing
from stanchion.stores.mongo.claims.reserve import Reservations
from stanchion.stores.mongo.client.documents import (
    BY_ARRIVAL,
    Document,
    claim_order,
    queued,
    rank_in,
)
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import make_queue
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.claims import DIVIDED, LOWEST_RANK, Claim, Claimed
from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.rules.capacity.slots import LEAST_GRANTED, order_slot
from stanchion.stores.rules.lifecycle.jobs import items_of_all

_LANE_MAX = 1 << 30


class Obtained(NamedTuple):
    """Jobs that a claim has got; `in_limits`: they are within the limits of the queue."""

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
        self._reservations = Reservations(server)
        self._parking, self._outcomes, self._expired = parking, outcomes, ExpiredLeases(server, lost)

    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs, regardless of their slots."""
        if claim.repeat and (held := self._reservations.held(claim)):
            return Claimed(held)
        if claim.ids:
            claim = claim._replace(lanes=None, min_rank=LOWEST_RANK)
        obtained = self._obtain(claim)
        # No filter of an update compares the clock, so it is read before and once more behind.
        late = bool(obtained.rows) and claim.not_after is not None and claim.is_late(self._server.now())
        if obtained.in_limits and not late:
            return Claimed(obtained.rows, obtained.retry_in)
        self._outcomes.settle([Rollback(row.lease, 0.0, refund=True) for row in obtained.rows])
        return Claimed([], None if late else 0.0)

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for a slot in `claim.full`, up to one that does not."""
        return self._parking.park(PARKED_AT_ONCE, claim, began, alone=alone)

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Park a few of them, before others are skipped."""
        return self._parking.park(PARKED_FEW, claim, began, alone=False)

    def batch_size(self, queue: str, token: str) -> int:
        """Return how many jobs of a queue are held under a token."""
        return len(self._reservations.ids_reserved(queue, token))

    def _obtain(self, claim: Claim) -> Obtained:
        """Reserve the next due jobs, under the claim lock if the queue has limits or lanes."""
        state = self._locks.state_of(claim.queue)
        ids = self._next(claim, state, claim.limit) if claim.limit else []
        if ids is None:
            state = self._with_lanes(claim.queue)
            ids = self._next(claim, state, claim.limit) or []
        if not ids or (state.settings.paused and claim.delivery != DIVIDED) or claim.is_late(state.now):
            return Obtained([], state)
        limited = state.settings.bounded if claim.ids else state.settings.limited or claim.lanes is not None
        if not limited or claim.delivery == DIVIDED:
            return Obtained(self._take(claim, state, ids, claim.limit), state)
        if state.settings.ordered:
            return self._obtain_in_order(claim, state)
        lock = self._locks.acquire(state, claim.limit)
        if lock is None:
            return Obtained([], state)
        if not lock.starts:
            return Obtained([], state, lock.next_in(0))
        if lock.state is not state:  # other claimers had the lock meanwhile
            state = lock.state
            ids = self._next(claim, state, claim.limit) or []
        allowed = 0 if claim.is_late(state.now) else self._locks.allowed(lock)
        rows = self._take(claim, state, ids, allowed)
        in_limits = self._locks.release(lock, rows, _offset(claim, state, rows))
        used_up = len(rows) == lock.starts < claim.limit
        return Obtained(rows, state, lock.next_in(items_of_all(rows)) if used_up else None, in_limits)

    def _obtain_in_order(self, claim: Claim, state: QueueState) -> Obtained:
        """Reserve the head of an ordered queue, or else the next job, which becomes the head.

        The head is the job that was delivered, parked or deferred last: as long as it is live in the queue, no other
        is delivered. It is stored before the job is reserved; after a death in between it is a job like any other.
        """
        lock = self._locks.acquire(state, 1)
        if lock is None:
            return Obtained([], state)
        if not lock.starts:
            return Obtained([], state, lock.next_in(0))
        state, rows, retry_in = lock.state, [], None
        if self._locks.allowed(lock) > 0:
            head = self._head(state)
            if head is None:
                ids = (self._next_any(claim, state, 1) or [])[:1]
                if ids and _names(claim, ids[0]):
                    self._locks.set_head(lock, ids[0])
                    rows = self._reservations.take(claim, state, ids)
            elif rank_in(head) < claim.min_rank:
                rows = []
            elif head["state"] == QUEUED and head["run_at"] > state.now:
                retry_in = (head["run_at"] - state.now) / SECOND
            elif head["state"] == QUEUED and _within(claim, head["lane"]) and _names(claim, head["_id"]):
                rows = self._reservations.take(claim, state, [head["_id"]])
        in_limits = self._locks.release(lock, rows, _offset(claim, state, rows))
        return Obtained(rows, state, retry_in, in_limits)

    def _head(self, state: QueueState) -> Document | None:
        """Return the head of an ordered queue if it is live there.

        If it is parked, and a job from before the queue was ordered holds the slot it may wait for, that goes first.
        """
        if (head := state.document.get("head")) is None:
            return None
        live: Document = {"queue": state.settings.name, "live": True}
        fields = dict.fromkeys(("state", "run_at", "lane", "rank", "waits_for", "order_key"), 1)

        def work(on: Place, _again: bool) -> Document | None:
            found: Document | None = on.jobs.find_one({"_id": head, **live}, fields)
            if found is None or found["state"] != JobState.WAITING:
                return found
            if found["waits_for"] == key_of(order_slot(state.settings.name, found.get("order_key", ""))):
                of_key = {**live, "order_key": found["order_key"]}
                return on.jobs.find_one(of_key, fields, sort=BY_ARRIVAL) or found
            by_index = {"rank": {"$gt": LEAST_GRANTED}}
            granted = {**queued(state.settings.name), **by_index, "slots_hold": {"$ne": None}}
            return on.jobs.find_one(granted, fields) or found

        return self._server.call(work)

    def _with_lanes(self, queue: str) -> QueueState:
        """Store that a queue has lanes, and return it."""
        self._server.call(lambda on, _again: make_queue(on, queue, ("uses_lanes",)))
        return self._locks.state_of(queue)

    def _next(self, claim: Claim, state: QueueState, limit: int, offset: int | None = None) -> list[str] | None:
        """Return the ids that a claim names, all of them, or else the ids of the next due jobs: see `_next_any`."""
        return list(claim.workers) if claim.ids else self._next_any(claim, state, limit, offset)

    def _next_any(self, claim: Claim, state: QueueState, limit: int, offset: int | None = None) -> list[str] | None:
        """Return the ids of the next due jobs, in order, after taking back expired leases.

        `offset`: the round-robin offset, if other than in the state. None if jobs are in lanes and the queue has none.
        """
        if not _by_lanes(claim, state):
            return self._next_unlaned(claim, state, limit)
        while lost := self._server.call(
            lambda on, _again: _ids(on.jobs.find(self._expired.match(state.now), {"_id": 1}).limit(AT_ONCE))
        ):
            self._expired.free(lost, state.now)
        first, last = claim.lanes or (UNLANED, _LANE_MAX)
        lanes = [lane for lane in self._lanes.used(claim.queue) if first <= lane <= last]
        if offset is None:
            offset = state.document.get("last_lane", {}).get(_range(claim), UNLANED)
        return self._lanes.due_round_robin(claim.queue, state.now, rotated(lanes, offset), limit, _such(claim))

    def _next_unlaned(self, claim: Claim, state: QueueState, limit: int) -> list[str] | None:
        queue = state.settings.name
        stray: list[Document] = [
            {"$match": {**queued(queue), "lane": {"$gt": UNLANED}}},
            {"$limit": 1},
            {"$project": {"_id": 1, "stray": {"$literal": True}}},
        ]
        due: list[Document] = [
            {"$match": {**queued(queue), "lane": UNLANED, "run_at": {"$lte": state.now}, **_such(claim)}},
            {"$sort": {"rank": -1, "run_at": 1, "_id": 1}},
            {"$limit": limit},
            {"$project": {"rank": 1, "run_at": 1}},
        ]

        def work(on: Place, _again: bool) -> list[Document]:
            if claim.full:  # this claim has checked for lanes before
                return on.documents(on.jobs, *due)
            expired: list[Document] = [{"$match": self._expired.match(state.now)}, {"$limit": AT_ONCE}]
            others = ({"$unionWith": {"coll": on.jobs.name, "pipeline": one}} for one in (stray, due))
            return on.documents(on.jobs, *expired, {"$project": {"_id": 1, "expired": {"$literal": True}}}, *others)

        while True:
            found = self._server.call(work)
            lost = [one["_id"] for one in found if "expired" in one]
            if not lost:
                return None if any("stray" in one for one in found) else _ids(sorted(found, key=claim_order))
            self._expired.free(lost, state.now)

    def _take(self, claim: Claim, state: QueueState, ids: list[str], limit: int) -> list[JobRow]:
        """Reserve up to `limit` of these jobs; replace jobs that other claimers got by the next ones."""
        rows: list[JobRow] = []
        while ids and len(rows) < limit:
            part, rest = ids[: limit - len(rows)], ids[limit - len(rows) :]
            found = self._reservations.take(claim, state, part)
            rows += found
            if claim.ids:
                ids = rest
            elif len(found) == len(part):
                break
            else:
                ids = self._next(claim, state, limit - len(rows), rows[-1].lane if rows else None) or []
        return rows


def _names(claim: Claim, job: str) -> bool:
    return not claim.ids or job in claim.workers


def _offset(claim: Claim, state: QueueState, rows: list[JobRow]) -> Document:
    """Return the update of the round-robin offset after these jobs."""
    served = rows and _by_lanes(claim, state) and not claim.ids
    return {f"last_lane.{_range(claim)}": rows[-1].lane} if served else {}


def _such(claim: Claim) -> Document:
    """Return the filter for the due jobs that the claim wants."""
    ranks: Document = {} if claim.min_rank == LOWEST_RANK else {"rank": {"$gte": claim.min_rank}}
    return ranks | passing(claim.full)


def _by_lanes(claim: Claim, state: QueueState) -> bool:
    """Return True if lanes must be read one by one."""
    return state.settings.uses_lanes or claim.lanes is not None


def _within(claim: Claim, lane: int) -> bool:
    return claim.lanes is None or claim.lanes[0] <= lane <= claim.lanes[1]


def _range(claim: Claim) -> str:
    """Return the field of the round-robin offset, for all lanes or for the claim's range."""
    return "all" if claim.lanes is None else "{}-{}".format(*claim.lanes)


def _ids(found: Iterable[Document]) -> list[str]:
    return [one["_id"] for one in found]
