"""Jobs out: the claim, and the limits of a queue.

Steps of a claim, one command each: (1) the settings of the queue and the clock, (2) which leases have run out and
which jobs are next, (3) one update that reserves those of them that are still queued, each on its own, (4) which of
them it got. After a death past (3) the jobs are held by a token that nobody knows: their lease runs
out, or their worker is missed.

The index of the line is read in order: within a priority the due jobs come first, and the server goes on to the next
priority at the first that is not due. So scheduled jobs, however many and however important, cost one step per
priority.

Under `max_rate` or `max_running` the claimers of a queue take turns, see `turns.py`: (3) and (4) are within the turn.
Whoever comes back too late, and finds the turn gone to another, gives back what it has reserved.

In a queue that has lanes the claimers take turns too: with the turn comes the lane that was `served` last, and with
its end it is told who is next. A queue without lanes that is found to hold jobs in some has lanes from then on.

A pop finishes jobs where a claim reserves them, but for those whose end entails something elsewhere: they are reserved,
let in by their gates, and then finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from typing import NamedTuple

from bson import ObjectId

from stanchion.stores.cas.mixins.jobs import Context, Decision
from stanchion.stores.mongo.client.documents import FINISHED, PLAIN, Document, event, expiry, row_of, up_to
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.jobs import make_queue
from stanchion.stores.mongo.lanes import in_turn, place_in_line, queued
from stanchion.stores.mongo.parking import Parking, passing
from stanchion.stores.mongo.turns import Line
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.slots import HOLDER_BOOST

_EXPIRED = 500
_LAST = 1 << 30


class Handed(NamedTuple):
    """Jobs that were handed out; `in_turn`: within the limits of the queue."""

    rows: list[JobRow]
    line: Line
    retry_in: float | None = None
    in_turn: bool = True


Updates = Callable[[Line], list[tuple[Document, Document]]]
"""Returns the updates that hand out jobs, each with the filter for those that it is for."""


class Claiming(Parking):
    """Reserves due jobs."""

    def reserve_due(self, claim: Claim) -> Claimed:
        if claim.repeat and (held := self._held(claim)):
            return Claimed(held)
        handed = self._hand_out(claim, lambda line: _reserving(claim, line))
        if handed.in_turn:
            return Claimed(handed.rows, handed.retry_in)
        self.settle_each([Rollback(row.id, claim.token, 0.0, refund=True) for row in handed.rows])
        return Claimed([], 0.0)

    def pop(self, claim: Claim) -> list[JobRow]:
        claim = claim._replace(token=claim.token or token_hex(16))
        handed = self._pop_or_reserve(claim)
        rows = [row for row in handed if row.finished_at is not None]
        reserved = [row for row in handed if row.finished_at is None]
        if not reserved:
            return rows

        def reserve(wish: Claim) -> Claimed:
            if not reserved:
                return self.reserve_due(wish)
            first = Claimed(list(reserved))
            reserved.clear()
            return first

        admitted = self.hand_out_some(claim._replace(limit=claim.limit - len(rows)), reserve, "-reserved")
        popped = self._pop_reserved([row.id for row in admitted], claim.token)
        return rows + [row for row in popped if row is not None]

    def _pop_or_reserve(self, claim: Claim) -> list[JobRow]:
        # What was popped out of turn is popped all the same: nothing of it can run over the limit from now on.
        handed = self._hand_out(
            claim, lambda line: [(PLAIN, _popped(claim, line)), *_reserving(claim, line, {"$nor": [PLAIN]})]
        )
        if handed.rows and not handed.line.settings.history_ttl:
            kept = {"_id": {"$in": [row.id for row in handed.rows]}, "token": claim.token, **FINISHED}
            gone = {"$set": {"gone": True}, "$unset": {"payload": "", "headers": "", "errors": ""}}
            self.server.call(lambda on, _again: on.jobs.update_many(kept, gone))
        self.signals.announce((), [row.id for row in handed.rows if row.finished_at is not None])
        return handed.rows

    def _pop_reserved(self, ids: list[str], token: str) -> list[JobRow | None]:
        """Finish jobs that are reserved under this token, as popped; None for each that was lost."""
        made: dict[int, JobRow] = {}

        def decide(index: int, row: JobRow | None, context: Context) -> Decision[JobRow | None]:
            if not claim_rules.holds(row, token, context.now):
                return Decision(made.get(index) if context.repeated else None)
            made[index] = outcome_rules.popped(row._replace(attempts=row.attempts - 1), context.now)
            return Decision(made[index], made[index], "-reserved popped")

        return self.decide_each(ids, decide)

    def _held(self, claim: Claim) -> list[JobRow]:
        """Return what an earlier try of this claim has reserved."""
        held = {"live": True, "queue": claim.queue, "state": JobState.RUNNING.value, "token": claim.token}
        rows = [row_of(one) for one in self.server.call(lambda on, _again: list(on.jobs.find(held)))]
        return sorted(rows, key=lambda row: (-row.priority, row.run_at, row.id))

    def _hand_out(self, claim: Claim, updates: Updates) -> Handed:
        line = self.line(claim.queue)
        ids = self._next(claim, line, claim.limit) if claim.limit else []
        if ids is None:
            line = self._with_lanes(claim.queue)
            ids = self._next(claim, line, claim.limit) or []
        if not ids or line.settings.paused:
            return Handed([], line)
        if not line.settings.throttled and claim.lanes is None:
            return Handed(self._obtain(claim, line, ids, claim.limit, updates), line)
        turn = self.take_turn(line, claim.limit)
        if turn is None:
            return Handed([], line)
        if not turn.permits:
            return Handed([], line, turn.next_in(0))
        if turn.line is not line:  # others had theirs meanwhile
            line = turn.line
            ids = self._next(claim, line, claim.limit) or []
        allowed = self.allowed(turn)
        rows = self._obtain(claim, line, ids[:allowed], allowed, updates) if allowed > 0 else []
        served: Document = {_served(claim): rows[-1].lane} if rows and _lanewise(claim, line) else {}
        in_turn = self.end_turn(turn, len(rows), served)
        used_up = len(rows) == turn.permits < claim.limit
        return Handed(rows, line, turn.next_in(len(rows)) if used_up else None, in_turn)

    def _with_lanes(self, queue: str) -> Line:
        """Make a queue one that has lanes, and return it."""

        def work(on: Place, _again: bool) -> None:
            make_queue(on, queue)
            on.queues.update_one({"_id": queue}, {"$set": {"laned": True}})

        self.server.call(work)
        return self.line(queue)

    def _next(self, claim: Claim, line: Line, limit: int, served: int | None = None) -> list[str] | None:
        """Return the ids of the next due jobs, in order, after expired leases were taken back.

        `served`: the lane that had the last turn, if it is not as in the line. None when a queue that has no lanes
        holds jobs in some.
        """
        if not _lanewise(claim, line):
            return self._next_in_line(line, limit, claim.full)
        while lost := self.server.call(
            lambda on, _again: _ids(on.jobs.find(_expired(line), {"_id": 1}).limit(_EXPIRED))
        ):
            self.free(lost, {})
        first, last = claim.lanes or (UNLANED, _LAST)
        lanes = [lane for lane in self.lanes_of(claim.queue) if first <= lane <= last]
        if served is None:
            served = line.document.get("served", {}).get(_range(claim), UNLANED)
        return self.due_in_turn(claim.queue, line.now, in_turn(lanes, served), limit, passing(claim.queue, claim.full))

    def _next_in_line(self, line: Line, limit: int, full: Sequence[str]) -> list[str] | None:
        queue = line.settings.name
        expired: list[Document] = [{"$match": _expired(line)}, {"$limit": _EXPIRED}]
        stray: list[Document] = [
            {"$match": {**queued(queue), "lane": {"$gt": UNLANED}}},
            {"$limit": 1},
            {"$project": {"_id": 1, "stray": {"$literal": True}}},
        ]
        due: list[Document] = [
            {"$match": {**queued(queue), "lane": UNLANED, "run_at": {"$lte": line.now}, **passing(queue, full)}},
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
            found = self.server.call(work)
            lost = [one["_id"] for one in found if "expired" in one]
            if not lost:
                return None if any("stray" in one for one in found) else _ids(sorted(found, key=place_in_line))
            self.free(lost, {})

    def _obtain(self, claim: Claim, line: Line, ids: list[str], limit: int, updates: Updates) -> list[JobRow]:
        """Hand out these jobs; where others were quicker, those that come next."""
        rows: list[JobRow] = []
        while ids:
            found = self._take_once(claim, line, ids, updates(line))
            rows += found
            if len(found) == len(ids):
                break
            ids = self._next(claim, line, limit - len(rows), rows[-1].lane if rows else None) or []
        return rows

    def _take_once(
        self, claim: Claim, line: Line, ids: list[str], updates: list[tuple[Document, Document]]
    ) -> list[JobRow]:
        due = {"_id": {"$in": ids}, "queue": claim.queue, "state": QUEUED, "run_at": {"$lte": line.now}}
        mine = {"_id": {"$in": ids}, "token": claim.token, "started_at": line.now}
        places = {job: place for place, job in enumerate(ids)}

        def work(on: Place, again: bool) -> list[JobRow]:
            taken = 0
            for such, update in updates:
                if taken < len(ids):
                    taken += on.jobs.update_many({**due, **such}, update).matched_count
            found = on.jobs.find(mine) if taken or again else ()
            return sorted(map(row_of, found), key=lambda row: places[row.id])

        return self.server.call(work)


def _reserving(claim: Claim, line: Line, such: Document | None = None) -> list[tuple[Document, Document]]:
    """Return the updates that reserve such jobs: `transitions.claimed` for all jobs at once."""
    reserved, boosted = _reserved(claim, line), _reserved(claim, line)
    boosted["$inc"]["priority"] = -HOLDER_BOOST
    low, high = {"priority": {"$lte": HOLDER_BOOST // 2}}, {"priority": {"$gt": HOLDER_BOOST // 2}}
    return [({**(such or {}), **low}, reserved), ({**(such or {}), **high}, boosted)]


def _reserved(claim: Claim, line: Line) -> Document:
    held: Document = {"state": JobState.RUNNING.value, "token": claim.token, "started_at": line.now}
    if claim.worker is None:
        lease = line.settings.lease if claim.lease is None else claim.lease
        held["lease_until"] = line.now + int(lease * SECOND)
    else:
        held |= {"worker": claim.worker, "held_by": claim.worker}
    return {
        "$set": held,
        "$inc": {"attempts": 1, "version": 1},
        "$unset": {"progress": ""},
        "$push": {"events": event(ObjectId(), claim.queue, "reserved")},
    }


def _popped(claim: Claim, line: Line) -> Document:
    """Return the update that finishes a job as it is handed out; `transitions.popped` for all jobs at once."""
    done = {
        "state": JobState.DONE.value,
        "token": claim.token,
        "started_at": line.now,
        "finished_at": line.now,
        "expires_at": expiry(line.now, line.settings.history_ttl),
    }
    return {
        "$set": done,
        "$inc": {"attempts": 1, "version": 1},
        "$unset": {"live": "", "unique": ""},
        "$push": {"events": event(ObjectId(), claim.queue, "popped")},
    }


def _lanewise(claim: Claim, line: Line) -> bool:
    """Tell whether lanes have to be asked one by one."""
    return line.settings.laned or claim.lanes is not None


def _range(claim: Claim) -> str:
    """Return under which name a queue keeps the lane that was served last, of all or of the claim's range."""
    return "all" if claim.lanes is None else "{}-{}".format(*claim.lanes)


def _served(claim: Claim) -> str:
    return f"served.{_range(claim)}"


def _expired(line: Line) -> Document:
    return {"lease_until": up_to(line.now)}


def _ids(found: Iterable[Document]) -> list[str]:
    return [one["_id"] for one in found]
