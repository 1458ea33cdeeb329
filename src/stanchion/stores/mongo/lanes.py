"""Lanes: whose turn it is, and what is in them.

The lanes that hold queued jobs are read off the index of the line, and then the first jobs of the next few lanes, each
lane by itself and many in one command, so that a claim costs by the lanes and not by the jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
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
