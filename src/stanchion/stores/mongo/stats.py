"""Figures of queues in MongoDB: sizes, totals, next due time, and lane depths."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from stanchion.stores.mongo.claims.lanes import Lanes
from stanchion.stores.mongo.client.documents import NUMBER, Document, queued, queued_in, up_to
from stanchion.stores.mongo.client.server import Access, across
from stanchion.stores.mongo.queues import Counters
from stanchion.stores.records.claims import LOWEST_RANK
from stanchion.stores.records.queues import Counts, Head, QueueStats, Sizes, Stat
from stanchion.stores.rules.query import counts_states, sizes_in, stats_in

FEW: Final = 100
"""Number of queues up to which each is searched with index steps. Beyond it, only queues with many jobs are."""

SHALLOW: Final = 100
"""Queued jobs up to which a queue among many is read whole. Two index steps for each of 5,000 queues take 25 s
on DocumentDB, which plans each; one command reads their jobs in 0.1 s."""


class Stats:
    """Counts jobs."""

    def __init__(self, server: Access, lanes: Lanes, counters: Counters) -> None:
        self._server, self._lanes, self._counters = server, lanes, counters

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        states = self._states(queues) if counts_states(fields) else None
        more = self._more_items(queues) if "items" in fields else {}
        totals = self._counters.counts(queues) if "totals" in fields else {}
        heads = self._heads(queues, states) if {"next_due", "heads"}.intersection(fields) else {}
        dues = self._dues(queues, heads) if "next_due" in fields else {}
        chunks = self._chunks(queues) if "chunks" in fields else {}
        return {
            one: stats_in((states or {}).get(one, Sizes()), more.get(one, Sizes()), fields)._replace(
                totals=totals.get(one, Counts()),
                next_due=dues.get(one),
                heads=heads.get(one, ()) if "heads" in fields else (),
                chunks=chunks.get(one, 0),
            )
            for one in queues
        }

    def _states(self, queues: Collection[str]) -> dict[str, Sizes]:
        """Return the numbers of live jobs."""
        return self._sums(queues, {}, 1)

    def _more_items(self, queues: Collection[str]) -> dict[str, Sizes]:
        """Return the numbers of items of live chunks, beyond one each."""
        return self._sums(
            queues, {"items": {"$exists": True, **NUMBER, "$type": ["int", "long"]}}, {"$subtract": ["$items", 1]}
        )

    def _chunks(self, queues: Collection[str]) -> dict[str, int]:
        """Return the numbers of live chunks, by an index that has only these."""
        stages = (
            {"$match": {"live": True, "queue": {"$in": list(queues)}, "items": {"$exists": True}}},
            {"$group": {"_id": "$queue", "count": {"$sum": 1}}},
        )
        found = self._server.call(lambda on, _again: list(on.documents(on.jobs, *stages)))
        return {one["_id"]: one["count"] for one in found}

    def _sums(self, queues: Collection[str], such: Document, each: object) -> dict[str, Sizes]:
        """Return the sums of an expression over such live jobs of these queues."""
        due = {"$sum": {"$cond": [{"$lte": ["$run_at", self._server.now()]}, each, 0]}}
        stages = (
            {"$match": {"live": True, "queue": {"$in": list(queues)}, **such}},
            {"$group": {"_id": {"queue": "$queue", "state": "$state"}, "count": {"$sum": each}, "due": due}},
        )
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for one in self._server.call(lambda on, _again: on.documents(on.jobs, *stages)):
            if isinstance(state := one["_id"].get("state"), str):  # another program may have stored something else
                found.setdefault(one["_id"]["queue"], {})[state] = one["count"], one["due"]
        return {queue: sizes_in(states) for queue, states in found.items()}

    def _dues(self, queues: Collection[str], heads: Mapping[str, tuple[Head, ...]]) -> dict[str, int]:
        """Return when the first queued job of each queue is due, or since when a lease there has expired."""
        expired = {"$match": {"lease_until": up_to(self._server.now()), "queue": {"$in": list(queues)}}}
        each = {"$group": {"_id": "$queue", "end": {"$min": "$lease_until"}}}
        found = self._server.call(lambda on, _again: list(on.documents(on.jobs, expired, each)))
        dues = {one["_id"]: int(one["end"]) for one in found}
        for queue, several in heads.items():
            dues[queue] = min([*(head.run_at for head in several), *filter(None, [dues.get(queue)])])
        return dues

    def _heads(self, queues: Collection[str], states: Mapping[str, Sizes] | None) -> dict[str, tuple[Head, ...]]:
        """Return the first queued job of each rank in each lane of these queues. `states`: their sizes, if read."""
        if states is None and len(queues) <= FEW:
            return self._stepped(queues)
        known = self._states(queues) if states is None else states
        sizes = {name: one.total - one.running for name, one in known.items()}
        deep = [queue for queue, jobs in sizes.items() if jobs > SHALLOW]
        return {**self._grouped([queue for queue, jobs in sizes.items() if 0 < jobs <= SHALLOW]), **self._stepped(deep)}

    def _grouped(self, queues: Collection[str]) -> dict[str, tuple[Head, ...]]:
        """Return the heads of queues with few jobs, which one command reads."""
        stages = (
            {"$match": {**queued_in(queues), **_NUMBERS}},
            {"$group": {"_id": {one: f"${one}" for one in _PLACE}, "run_at": {"$min": "$run_at"}}},
            {"$addFields": {"now": "$$NOW"}},
        )
        found: dict[str, list[Head]] = {}
        for one in self._server.call(lambda on, _again: on.documents(on.jobs, *stages)) if queues else ():
            queue, lane, rank = (one["_id"][name] for name in _PLACE)
            head = Head(lane, rank, one["run_at"], one["run_at"] - self._server.at(one["now"]))
            found.setdefault(queue, []).append(head)
        return {queue: tuple(sorted(heads, key=lambda one: (one.lane, -one.rank))) for queue, heads in found.items()}

    def _stepped(self, queues: Collection[str]) -> dict[str, tuple[Head, ...]]:
        """Return the heads of queues with any number of jobs, with one index step for each.

        Most queues use one lane and one rank: one command finds the first job of many of these, and the
        last lane with its lowest rank, which shows that there are no others.
        """
        ends: dict[str, dict[str, Document]] = {}
        for one in across(self._server, [arm for queue in dict.fromkeys(queues) for arm in _ends(queue)]):
            ends.setdefault(one["queue"], {})[one["end"]] = one
        documents, lowest, arms = [], {}, []
        for queue, both in ends.items():
            if len(both) == len(_END_SORTS) and both["first"]["lane"] == both["last"]["lane"]:
                documents.append(both["first"])
                lowest[queue] = both["last"]["rank"]
            else:
                arms += [_head(queue, lane, {}) for lane in self._lanes.used(queue)]
        documents += across(self._server, arms)
        found: dict[str, tuple[Head, ...]] = {}
        while documents:
            for one in documents:
                head = Head(one["lane"], one["rank"], one["run_at"], one["run_at"] - self._server.at(one["now"]))
                found[one["queue"]] = (*found.get(one["queue"], ()), head)
            below = [one for one in documents if one["rank"] > lowest.get(one["queue"], LOWEST_RANK)]
            arms = [_head(one["queue"], one["lane"], {"$lt": one["rank"]}) for one in below]
            documents = list(across(self._server, arms))
        return found

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        each = {"$group": {"_id": "$lane", "count": {"$sum": 1}}}
        wanted = self._lanes.used(queue) if lanes is None else lanes
        arms: list[list[Document]] = [[_in_lane(queue, lane), {"$limit": at_most}, each] for lane in wanted]
        return {one["_id"]: one["count"] for one in across(self._server, arms)}


def _in_lane(queue: str, lane: int) -> Document:
    return {"$match": {**queued(queue), "lane": lane}}


_END_SORTS = {"first": {"lane": 1, "rank": -1, "run_at": 1}, "last": {"lane": -1, "rank": 1, "run_at": -1}}


def _ends(queue: str) -> Iterator[list[Document]]:
    """Yield the aggregations that find the first job in the order of the index, and the last one."""
    for end, sort in _END_SORTS.items():
        yield [
            {"$match": {**queued(queue), **_NUMBERS}},
            {"$sort": sort},
            {"$limit": 1},
            {"$project": _HEAD},
            {"$addFields": {"now": "$$NOW", "end": {"$literal": end}}},
        ]


def _head(queue: str, lane: int, below: Document) -> list[Document]:
    """Return the aggregation that finds the first job of the highest rank in a lane."""
    return [
        {"$match": {**_in_lane(queue, lane)["$match"], "run_at": NUMBER, "rank": {**NUMBER, **below}}},
        {"$sort": {"rank": -1, "run_at": 1}},
        {"$limit": 1},
        {"$project": _HEAD},
        {"$addFields": {"now": "$$NOW"}},
    ]


_PLACE = ("queue", "lane", "rank")
_NUMBERS = dict.fromkeys(("lane", "rank", "run_at"), NUMBER)
_HEAD = {"queue": 1, "lane": 1, "rank": 1, "run_at": 1}
