"""Whose turn it is to claim from a queue that has limits or lanes.

Under `max_rate` or `max_running` the claimers of a queue take turns, by a mark in the queue's document that is theirs
for a few seconds: (a) take the turn and the permits of the rate, (b) count what runs, (3) to (4) as above, (c) give
back the turn, and the permits not used. Whoever comes back too late, and finds the turn gone to another, gives back
what it has reserved, so that the limits hold. After a death the turn ends by its time; the permits are lost.
"""

from __future__ import annotations

import random
import time
from typing import NamedTuple

from bson import ObjectId

from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import CALL_SECONDS
from stanchion.stores.mongo.jobs import settings_in
from stanchion.stores.mongo.lanes import Laning
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.rate_limit import Bucket

_TURN_SECONDS = 3.0


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


class Turning(Laning):
    """Lets the claimers of a queue in one by one."""

    def line(self, queue: str) -> Line:
        """Return a queue as it is now."""
        stages = {"$match": {"_id": queue}}, {"$project": {"folding": 0}}, {"$addFields": {"now": "$$NOW"}}
        found = self.server.call(lambda on, _again: on.documents(on.queues, *stages))
        if not found:
            return Line(QueueSettings(queue), {}, self.now())
        return Line(settings_in(found[0]), found[0], self.server.at(found[0]["now"]))

    def take_turn(self, line: Line, wanted: int) -> Turn | None:
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
            line = self.line(queue)
        return None

    def _change_queue(self, wanted: Document, update: Document) -> bool:
        """Update the document of a queue that is as wanted; False when it isn't, or was, and the answer was lost."""
        return bool(self.server.call(lambda on, _again: on.queues.update_one(wanted, update)).matched_count)

    def allowed(self, turn: Turn) -> int:
        """Return how many jobs may start in this turn."""
        most = turn.line.settings.max_running
        if most is None:
            return turn.permits
        running = {"live": True, "queue": turn.line.settings.name, "state": JobState.RUNNING.value}
        count = self.server.call(lambda on, _again: on.jobs.count_documents(running, limit=most))
        return min(turn.permits, most - count)

    def end_turn(self, turn: Turn, started: int, served: Document) -> bool:
        """Give the turn back, and say which lane was served; False when it is another's by now."""
        queue, mark = turn.line.settings.name, turn.mark
        ended: Document = {"ended": mark, **served}
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
