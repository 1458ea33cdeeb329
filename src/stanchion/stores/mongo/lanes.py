"""Lanes: whose turn it is, and what is in them.

The lanes that hold queued jobs are read off the index of the line, and then the first jobs of the next few lanes, each
lane by itself and many in one command, so that a claim costs by the lanes and not by the jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.jobs import ARMS, MongoBase
from stanchion.stores.records.jobs import QUEUED

_FEW = 4


class Laning(MongoBase):
    """Looks into lanes."""

    def due_in_turn(self, queue: str, now: int, lanes: Sequence[int], limit: int, such: Document) -> list[str]:
        """Return the ids of the next due jobs that are `such`, when these lanes take turns in this order."""
        share, left, found = -(-limit // max(1, len(lanes))), list(lanes), dict[int, list[str]]()
        while left:
            size = min(ARMS, max(_FEW, limit))
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
                {"$sort": {"priority": -1, "run_at": 1, "_id": 1}},
                {"$limit": most},
                {"$project": {"lane": 1, "priority": 1, "run_at": 1}},
            ]

        found: dict[int, list[str]] = {}
        for one in sorted(self.across([arm(lane) for lane in lanes]), key=place_in_line):
            found.setdefault(one["lane"], []).append(one["_id"])
        return found

    def lanes_of(self, queue: str) -> list[int]:
        """Return the lanes that hold queued jobs, in order."""
        return sorted(self.server.call(lambda on, _again: on.jobs.distinct("lane", queued(queue))))

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int | None = 1000) -> dict[int, int]:
        each = {"$group": {"_id": "$lane", "count": {"$sum": 1}}}

        def arm(lane: int) -> list[Document]:
            end = [] if at_most is None else [{"$limit": at_most}]
            return [{"$match": {**queued(queue), "lane": lane}}, *end, each]

        if lanes is None and at_most is None:
            whole = {"$match": queued(queue)}, each
            found = self.server.call(lambda on, _again: on.documents(on.jobs, *whole))
        else:
            found = list(self.across([arm(lane) for lane in (self.lanes_of(queue) if lanes is None else lanes)]))
        return {one["_id"]: one["count"] for one in found}

    def next_due(self, queues: Sequence[str]) -> int | None:
        """One step of the index per lane and priority in use, as in a claim."""
        return min((due for queue in queues for due in self._first_due(queue)), default=None)

    def _first_due(self, queue: str) -> Iterator[int]:
        below: dict[int, int] = {}
        lanes = self.lanes_of(queue)

        def arm(lane: int) -> list[Document]:
            rest = {"priority": {"$lt": below[lane]}} if lane in below else {}
            return [
                {"$match": {**queued(queue), "lane": lane, **rest}},
                {"$sort": {"priority": -1, "run_at": 1}},
                {"$limit": 1},
                {"$project": {"lane": 1, "priority": 1, "run_at": 1}},
            ]

        while lanes:
            found = list(self.across([arm(lane) for lane in lanes]))
            yield from (one["run_at"] for one in found)
            below |= {one["lane"]: one["priority"] for one in found}
            lanes = [one["lane"] for one in found]


def queued(queue: str) -> Document:
    """Return the filter for the queued jobs of a queue."""
    return {"live": True, "queue": queue, "state": QUEUED}


def place_in_line(job: Document) -> tuple[int, int, str]:
    """Return what queued jobs are sorted by: in what order the parts of a $unionWith come is not said."""
    return -job["priority"], job["run_at"], job["_id"]


def in_turn(lanes: Sequence[int], served: int) -> list[int]:
    """Return lanes, which come in order, as they take turns when `served` was the last."""
    turn = bisect_right(lanes, served)
    return [*lanes[turn:], *lanes[:turn]]
