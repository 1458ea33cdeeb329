"""Figures of queues in MongoDB: sizes, totals, next due time, and lane depths."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stanchion.stores.mongo.claims.lanes import Lanes
from stanchion.stores.mongo.client.documents import Document, queued
from stanchion.stores.mongo.client.server import Access, across
from stanchion.stores.mongo.queues import Counters
from stanchion.stores.records.queues import Counts, QueueStats, Sizes, Stat
from stanchion.stores.rules.query import sizes_in


class Stats:
    """Counts jobs."""

    def __init__(self, server: Access, lanes: Lanes, counters: Counters) -> None:
        self._server, self._lanes, self._counters = server, lanes, counters

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        states = self._states(queues) if "states" in fields else {}
        totals = {queue: self._counters.counts(queue) for queue in queues} if "totals" in fields else {}
        due = self._next_due(queues) if "next_due" in fields else {}
        return {one: QueueStats(states.get(one, Sizes()), totals.get(one, Counts()), due.get(one)) for one in queues}

    def _states(self, queues: Collection[str]) -> dict[str, Sizes]:
        due = {"$sum": {"$cond": [{"$lte": ["$run_at", self._server.now()]}, 1, 0]}}
        stages = (
            {"$match": {"live": True, "queue": {"$in": list(queues)}}},
            {"$group": {"_id": {"queue": "$queue", "state": "$state"}, "count": {"$sum": 1}, "due": due}},
        )
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for one in self._server.call(lambda on, _again: on.documents(on.jobs, *stages)):
            found.setdefault(one["_id"]["queue"], {})[one["_id"]["state"]] = one["count"], one["due"]
        return {queue: sizes_in(states) for queue, states in found.items()}

    def _next_due(self, queues: Collection[str]) -> dict[str, int]:
        """Return when the first queued job of each queue is due, with one index step per lane and rank."""
        places = [(queue, lane) for queue in dict.fromkeys(queues) for lane in self._lanes.used(queue)]
        arms = [_head(queue, lane, {}) for queue, lane in places]
        found: dict[str, int] = {}
        while arms:
            heads = list(across(self._server, arms))
            for head in heads:
                found[head["queue"]] = min(head["run_at"], found.get(head["queue"], head["run_at"]))
            arms = [_head(head["queue"], head["lane"], {"rank": {"$lt": head["rank"]}}) for head in heads]
        return found

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        each = {"$group": {"_id": "$lane", "count": {"$sum": 1}}}
        wanted = self._lanes.used(queue) if lanes is None else lanes
        arms: list[list[Document]] = [[_in_lane(queue, lane), {"$limit": at_most}, each] for lane in wanted]
        return {one["_id"]: one["count"] for one in across(self._server, arms)}


def _in_lane(queue: str, lane: int) -> Document:
    return {"$match": {**queued(queue), "lane": lane}}


def _head(queue: str, lane: int, below: Document) -> list[Document]:
    """Return the aggregation that finds the first job of the highest rank in a lane."""
    return [
        {"$match": {**_in_lane(queue, lane)["$match"], **below}},
        {"$sort": {"rank": -1, "run_at": 1}},
        {"$limit": 1},
        {"$project": {"queue": 1, "lane": 1, "rank": 1, "run_at": 1}},
    ]
