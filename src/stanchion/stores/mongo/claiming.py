"""Jobs out: the claim, and the limits of a queue.

Steps of a claim, one command each: (1) the settings of the queue and the clock, (2) which leases have run out and
which jobs are next, (3) one update that reserves those of them that are still queued, each on its own, (4) which of
them it got. After a death past (3) the jobs are held by a token that nobody knows: their lease runs
out, or their worker is missed.

The index of the line is read in order: within a priority the due jobs come first, and the server goes on to the next
priority at the first that is not due. So scheduled jobs, however many and however important, cost one step per
priority.

Under `max_rate` or `max_running` the claimers of a queue take turns, by a mark in the queue's document that is theirs
for a few seconds: (a) take the turn and the permits of the rate, (b) count what runs, (3) to (4) as above, (c) give
back the turn, and the permits not used. Whoever comes back too late, and finds the turn gone to another, gives back
what it has reserved, so that the limits hold. After a death the turn ends by its time; the permits are lost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from bson import ObjectId

from stanchion.stores.mongo.base import MongoBase, settings_in
from stanchion.stores.mongo.documents import FINISHED, Document, event, expiry, row_of
from stanchion.stores.mongo.places import Place
from stanchion.stores.mongo.server import CALL_SECONDS
from stanchion.stores.records import QUEUED, SECOND, Claim, Claimed, JobRow, JobState, QueueSettings, Rollback
from stanchion.stores.throttle import Bucket

_TURN_SECONDS = 3.0
_EXPIRED = 500


class Line(NamedTuple):
    """A queue as a claim finds it."""

    settings: QueueSettings
    document: Document
    now: int


class Turn(NamedTuple):
    """The right to claim from a queue that has limits."""

    line: Line
    """The queue at that moment."""
    mark: ObjectId
    permits: int
    """Jobs that may start by the rate."""
    bucket: Bucket | None
    """Before these permits were taken."""

    def next_in(self, started: int) -> float | None:
        """Return in how many seconds the rate may allow one more, when so many have started."""
        return None if self.bucket is None else self.bucket.spent(started).next_in


class Handed(NamedTuple):
    """Jobs that were handed out; `in_turn`: within the limits of the queue."""

    rows: list[JobRow]
    line: Line
    retry_in: float | None = None
    in_turn: bool = True


Update = Callable[[Line], Document]


class Claiming(MongoBase):
    """Reserves due jobs."""

    def claim(self, claim: Claim) -> Claimed:
        if claim.repeat and (held := self._held(claim)):
            return Claimed(held)
        handed = self._hand_out(claim, lambda line: _reserved(claim, line))
        if handed.in_turn:
            return Claimed(handed.rows, handed.retry_in)
        self.settle_each([Rollback(row.id, claim.token, 0.0, refund=True) for row in handed.rows])
        return Claimed([], 0.0)

    def pop(self, claim: Claim) -> list[JobRow]:
        # What was popped out of turn is popped all the same: nothing of it can run over the limit from now on.
        handed = self._hand_out(claim, lambda line: _popped(claim, line))
        if handed.rows and not handed.line.settings.history_ttl:
            kept = {"_id": {"$in": [row.id for row in handed.rows]}, "token": claim.token, **FINISHED}
            gone = {"$set": {"gone": True}, "$unset": {"payload": "", "headers": "", "errors": ""}}
            self.server.call(lambda on, _again: on.jobs.update_many(kept, gone))
        return handed.rows

    def _held(self, claim: Claim) -> list[JobRow]:
        """Return what an earlier try of this claim has reserved."""
        held = {"live": True, "queue": claim.queue, "state": JobState.RUNNING.value, "token": claim.token}
        return _in_order([row_of(one) for one in self.server.call(lambda on, _again: list(on.jobs.find(held)))])

    def _hand_out(self, claim: Claim, update: Update) -> Handed:
        line = self._line(claim.queue)
        ids = self._next(line, claim.limit) if claim.limit else []
        if not ids or line.settings.paused:
            return Handed([], line)
        if not line.settings.throttled:
            return Handed(self._take(claim, line, ids, claim.limit, update), line)
        turn = self._take_turn(line, claim.limit)
        if turn is None:
            return Handed([], line)
        if not turn.permits:
            return Handed([], line, turn.next_in(0))
        if turn.line is not line:  # others had theirs meanwhile
            line = turn.line
            ids = self._next(line, claim.limit)
        allowed = self._allowed(turn)
        rows = self._take(claim, line, ids[:allowed], allowed, update) if allowed > 0 else []
        in_turn = self._end_turn(turn, len(rows))
        used_up = len(rows) == turn.permits < claim.limit
        return Handed(rows, line, turn.next_in(len(rows)) if used_up else None, in_turn)

    def _line(self, queue: str) -> Line:
        stages = {"$match": {"_id": queue}}, {"$project": {"folding": 0}}, {"$addFields": {"now": "$$NOW"}}
        found = self.server.call(lambda on, _again: on.documents(on.queues, *stages))
        if not found:
            return Line(QueueSettings(queue), {}, self.now())
        return Line(settings_in(found[0]), found[0], self.server.at(found[0]["now"]))

    def _next(self, line: Line, limit: int) -> list[str]:
        """Return the ids of the next due jobs, in order, after expired leases were taken back."""
        expired: list[Document] = [{"$match": {"lease_until": {"$lte": line.now}}}, {"$limit": _EXPIRED}]
        due: list[Document] = [
            {
                "$match": {
                    "live": True,
                    "queue": line.settings.name,
                    "state": QUEUED,
                    "lane": 0,
                    "run_at": {"$lte": line.now},
                }
            },
            {"$sort": {"priority": -1, "run_at": 1, "_id": 1}},
            {"$limit": limit},
            {"$project": {"_id": 1}},
        ]

        def work(on: Place, _again: bool) -> list[Document]:
            both = {"$unionWith": {"coll": on.jobs.name, "pipeline": due}}
            return on.documents(on.jobs, *expired, {"$project": {"_id": 1, "expired": {"$literal": True}}}, both)

        while True:
            found = self.server.call(work)
            lost = [one["_id"] for one in found if "expired" in one]
            if not lost:
                return [one["_id"] for one in found]
            self.free(lost, {})

    def _take(self, claim: Claim, line: Line, ids: list[str], limit: int, update: Update) -> list[JobRow]:
        """Hand out these jobs; where others were quicker, those that come next."""
        rows: list[JobRow] = []
        while ids:
            found = self._take_once(claim, line, ids, update(line))
            rows += found
            if len(found) == len(ids):
                break
            ids = self._next(line, limit - len(rows))
        return _in_order(rows)

    def _take_once(self, claim: Claim, line: Line, ids: list[str], update: Document) -> list[JobRow]:
        due = {"_id": {"$in": ids}, "queue": claim.queue, "state": QUEUED, "run_at": {"$lte": line.now}}
        mine = {"_id": {"$in": ids}, "token": claim.token, "started_at": line.now}

        def work(on: Place, again: bool) -> list[JobRow]:
            taken = on.jobs.update_many(due, update).matched_count
            return [row_of(one) for one in on.jobs.find(mine)] if taken or again else []

        return self.server.call(work)

    # -- limits

    def _take_turn(self, line: Line, wanted: int) -> Turn | None:
        """Wait for the turn, and take it with the permits that the rate gives.

        Where the rate gives none there is nothing to take a turn for. None when the turn never comes, or the queue is
        paused by then.
        """
        queue, mark, end = line.settings.name, ObjectId(), time.monotonic() + CALL_SECONDS
        pause, turn = 0.002, None
        while time.monotonic() < end and not line.settings.paused:
            holder = line.document.get("turn")
            if turn is not None and holder is not None and holder["mark"] == mark:
                return turn  # the answer was lost
            if holder is None or holder["until"] <= line.now:
                turn, changes = _turn(line, mark, wanted)
                # As it was seen: not taken since, nor taken and ended.
                seen = {"turn.mark": holder and holder["mark"], "ended": line.document.get("ended")}
                if not turn.permits or self._change_queue({"_id": queue, **seen}, {"$set": changes}):
                    return turn
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            pause = min(pause * 1.5, 0.05)
            line = self._line(queue)
        return None

    def _change_queue(self, wanted: Document, update: Document) -> bool:
        """Update the document of a queue that is as wanted; False when it isn't, or was, and the answer was lost."""
        return bool(self.server.call(lambda on, _again: on.queues.update_one(wanted, update)).matched_count)

    def _allowed(self, turn: Turn) -> int:
        most = turn.line.settings.max_running
        if most is None:
            return turn.permits
        running = {"live": True, "queue": turn.line.settings.name, "state": JobState.RUNNING.value}
        count = self.server.call(lambda on, _again: on.jobs.count_documents(running, limit=most))
        return min(turn.permits, most - count)

    def _end_turn(self, turn: Turn, started: int) -> bool:
        """Give the turn back; False when it is another's by now."""
        queue, mark = turn.line.settings.name, turn.mark
        ended: Document = {"ended": mark}
        if turn.bucket is not None:
            ended["bucket"] = _stored(turn.bucket.spent(started))

        def work(on: Place, again: bool) -> bool:
            mine = {"_id": queue, "turn.mark": mark}
            if on.queues.update_one(mine, {"$unset": {"turn": ""}, "$set": ended}).matched_count:
                return True
            return again and on.queues.find_one({"_id": queue, "ended": mark}) is not None

        return self.server.call(work)


def _turn(line: Line, mark: ObjectId, wanted: int) -> tuple[Turn, Document]:
    """Return the turn, and the changes to the queue's document that take it."""
    changes: Document = {"turn": {"mark": mark, "until": line.now + int(_TURN_SECONDS * SECOND)}}
    rate = line.settings.max_rate
    if rate is None:
        return Turn(line, mark, wanted, None), changes
    bucket = Bucket(rate, **line.document.get("bucket", {"tokens": 0.0, "filled_at": 0})).at(line.now)
    permits = min(wanted, bucket.whole)
    changes["bucket"] = _stored(bucket.spent(permits))
    return Turn(line, mark, permits, bucket), changes


def _stored(bucket: Bucket) -> Document:
    return {"tokens": bucket.tokens, "filled_at": bucket.filled_at}


def _reserved(claim: Claim, line: Line) -> Document:
    """Return the update that reserves a job; `transitions.claimed` for all jobs at once."""
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


def _in_order(rows: list[JobRow]) -> list[JobRow]:
    return sorted(rows, key=lambda row: (-row.priority, row.run_at, row.id))
