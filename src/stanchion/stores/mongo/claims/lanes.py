"""Lanes of a queue, and the claim lock.

The lanes with queued jobs are read from an index, then the first jobs of the next few lanes, many lanes in one command.
The cost of a claim thus depends on the lanes and not on the jobs.

Claim lock: lets one claimer at a time into a queue with `max_rate`, `max_running` or lanes. It is stored in the queue's
document and expires after some seconds:

    (1) acquire the lock, with the starts that the rate grants
    (2) count running jobs, reserve jobs
    (3) release the lock: return unused starts, store the round-robin offset of the lanes

A claimer that is too late for (3) finds the lock gone, and gives its reserved jobs back, so that the limits hold. After
a death the lock expires; its starts are lost.
"""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from bson import ObjectId

from stanchion.stores.mongo.client.documents import NUMBER, Document, claim_order, queued
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import settings_in
from stanchion.stores.mongo.client.server import ARMS, Access, across
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.rate_limit import Bucket
from stanchion.stores.rules.lifecycle.jobs import items_of_all
from stanchion.stores.rules.set_back import is_ahead

_LANES_READ_MIN = 4
_LOCK_SECONDS = 3.0


class Lanes:
    """Reads the lanes of queues."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def used(self, queue: str) -> list[int]:
        """Return the lanes with queued jobs, sorted."""
        found = self._server.call(lambda on, _again: on.jobs.distinct("lane", {**queued(queue), "lane": NUMBER}))
        return sorted(found)

    def due_round_robin(self, queue: str, now: int, lanes: Sequence[int], limit: int, such: Document) -> list[str]:
        """Return the ids of the next due jobs that meet `such`, one of each lane in turn, in the order of `lanes`."""
        share, left, found = -(-limit // max(1, len(lanes))), list(lanes), dict[int, list[str]]()
        while left:
            size = min(ARMS, max(_LANES_READ_MIN, limit))
            for start in range(0, len(left), size):
                part = left[start : start + size]
                for lane, ids in self._heads(queue, now, part, share, such).items():
                    found[lane] = ids
                if share == 1 and len(found) >= limit:
                    break
            if sum(map(len, found.values())) >= limit:
                break
            left = [lane for lane in left if len(found.get(lane, ())) == share]
            share *= 2
        rounds = zip_longest(*(found[lane] for lane in lanes if lane in found))
        return [job for one in rounds for job in one if job is not None][:limit]

    def _heads(self, queue: str, now: int, lanes: Sequence[int], most: int, such: Document) -> dict[int, list[str]]:
        def arm(lane: int) -> list[Document]:
            return [
                {"$match": {**queued(queue), "lane": lane, "run_at": {"$lte": now}, **such}},
                {"$sort": {"rank": -1, "run_at": 1, "_id": 1}},
                {"$limit": most},
                {"$project": {"lane": 1, "rank": 1, "run_at": 1}},
            ]

        found: dict[int, list[str]] = {}
        for one in sorted(across(self._server, [arm(lane) for lane in lanes]), key=claim_order):
            if not isinstance(one["lane"], list):  # which another program has stored
                found.setdefault(one["lane"], []).append(one["_id"])
        return found


def rotated(lanes: Sequence[int], offset: int) -> list[int]:
    """Return sorted lanes rotated to start after the round-robin offset."""
    first = bisect_right(lanes, offset)
    return [*lanes[first:], *lanes[:first]]


class QueueState(NamedTuple):
    """A queue as a claim reads it: its settings, its document, and the server's clock."""

    settings: QueueSettings
    document: Document
    now: int


class ClaimLock(NamedTuple):
    """The exclusive right to claim from a queue with limits or lanes."""

    state: QueueState
    """The queue when the lock was acquired."""
    lock_id: ObjectId
    starts: int
    """Jobs that may start by the rate."""
    bucket: Bucket | None
    """The bucket before these starts were taken."""

    def next_in(self, started: int) -> float | None:
        """Return the seconds until the rate may allow one more start, after this many items."""
        return None if self.bucket is None else self.bucket.spent(started).next_in


class ClaimLocks:
    """Admits one claimer at a time to a queue."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def state_of(self, queue: str) -> QueueState:
        """Return a queue as it is now."""
        stages = {"$match": {"_id": queue}}, {"$project": {"folding": 0}}, {"$addFields": {"now": "$$NOW"}}
        found = self._server.call(lambda on, _again: on.documents(on.queues, *stages))
        if not found:
            return QueueState(QueueSettings(queue), {}, self._server.now())
        return QueueState(settings_in(found[0]), found[0], self._server.at(found[0]["now"]))

    def acquire(self, state: QueueState, wanted: int) -> ClaimLock | None:
        """Wait for the lock, and take it with up to `wanted` starts from the rate.

        If the rate gives none, the lock is not taken. None if it stays taken, or the queue is paused meanwhile.
        """
        queue, lock_id, end = state.settings.name, ObjectId(), time.monotonic() + calls.CALL_SECONDS
        pause, lock = 0.002, None
        while time.monotonic() < end and not state.settings.paused:
            holder = state.document.get("claim_lock")
            if lock is not None and holder is not None and holder["id"] == lock_id:
                return lock  # the reply was lost
            if holder is None or holder["until"] <= state.now or is_ahead(holder["until"], state.now):
                lock, changes = _lock(state, lock_id, wanted)
                # Unchanged since it was read: neither acquired, nor acquired and released.
                seen = {"claim_lock.id": holder and holder["id"], "ended": state.document.get("ended")}
                if not lock.starts or self._change_queue({"_id": queue, **seen}, {"$set": changes}):
                    return lock
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            pause = min(pause * 1.5, 0.05)
            state = self.state_of(queue)
        return None

    def _change_queue(self, wanted: Document, update: Document) -> bool:
        """Update the document of a queue if it matches; False if not, or if a first try, with a lost reply, did it."""
        return bool(self._server.call(lambda on, _again: on.queues.update_one(wanted, update)).matched_count)

    def allowed(self, lock: ClaimLock) -> int:
        """Return how many jobs may start under this lock."""
        if (most := lock.state.settings.running_max) is None:
            return lock.starts
        running = {"live": True, "queue": lock.state.settings.name, "state": JobState.RUNNING.value}
        count = self._server.call(lambda on, _again: on.jobs.count_documents(running, limit=most))
        return min(lock.starts, most - count)

    def set_head(self, lock: ClaimLock, job: str) -> None:
        """Store the head of an ordered queue, unless another claimer has the lock by now."""
        self._change_queue({"_id": lock.state.settings.name, "claim_lock.id": lock.lock_id}, {"$set": {"head": job}})

    def release(self, lock: ClaimLock, started: Sequence[JobRow], offset: Document) -> bool:
        """Release the lock, pay for the items of jobs, store the round-robin offset; False if another claimer has it
        by now.
        """
        queue, lock_id = lock.state.settings.name, lock.lock_id
        ended: Document = {"ended": lock_id, **offset}
        if lock.bucket is not None:
            ended["bucket"] = _stored(lock.bucket.spent(items_of_all(started)))

        def work(on: Place, again: bool) -> bool:
            mine = {"_id": queue, "claim_lock.id": lock_id}
            if on.queues.update_one(mine, {"$unset": {"claim_lock": ""}, "$set": ended}).matched_count:
                return True
            return again and on.queues.find_one({"_id": queue, "ended": lock_id}) is not None

        return self._server.call(work)


def _lock(state: QueueState, lock_id: ObjectId, wanted: int) -> tuple[ClaimLock, Document]:
    """Return the lock, and the update of the queue's document that takes it."""
    changes: Document = {"claim_lock": {"id": lock_id, "until": state.now + int(_LOCK_SECONDS * SECOND)}}
    rate = state.settings.max_rate
    if rate is None:
        return ClaimLock(state, lock_id, wanted, None), changes
    bucket = Bucket(rate, **state.document.get("bucket", {"tokens": 0.0, "filled_at": 0})).at(state.now)
    starts = min(wanted, bucket.whole)
    changes["bucket"] = _stored(bucket.spent(starts))
    return ClaimLock(state, lock_id, starts, bucket), changes


def _stored(bucket: Bucket) -> Document:
    return {"tokens": bucket.tokens, "filled_at": bucket.filled_at}
