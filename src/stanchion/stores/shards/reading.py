"""Reading shards: queries merged in order, figures and rows put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import Counts, QueueSettings, QueueStats, Stat
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.query import checked, cut, evenly, merged, several_of, value_of
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.shard import Shard

FOR_CLAIMS: frozenset[Stat] = frozenset(("next_due", "heads"))
"""Figures by which callers decide what to claim; a shard that is down has none of them."""


class ShardReading:
    """Reads all shards that may have the requested jobs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._settings: dict[str, list[QueueSettings]] = {}

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return jobs by id. StoreUnavailable only if one is not found and may be in a shard that does not answer."""
        found: dict[str, JobRow] = {}
        failure: StoreUnavailable | None = None
        for shard in self._fleet.all:
            if left := [one for one in ids if one not in found]:
                try:
                    found |= shard.ask(shard.store.fetch, left)
                except StoreUnavailable as error:
                    failure = error
        if failure is not None and not found.keys() >= set(ids):
            raise failure
        return found

    def select(self, query: Query) -> Page:
        """Return a page of a query, merged from a page of each shard."""
        checked(query)
        queue = value_of(query, "queue")
        queues = several_of(query, "queue") if queue is None else (queue,)
        shards = list(dict.fromkeys(shard for name in queues for shard in self._having(name))) or self._fleet.all
        if len(shards) == 1:
            return shards[0].ask(shards[0].store.select, query)
        return merged(query, [(partial(shard.ask, shard.store.select), query) for shard in shards])

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Split a query at ids, about evenly by the parts of each shard."""
        bounds: set[str] = set()
        for shard in self._fleet.all:
            for part in shard.ask(shard.store.partition, query, parts):
                bounds |= {one.value for one in part.where if one.field == "id" and one.op == ">="}
        return cut(query, ["", *evenly(sorted(bounds), min(len(bounds), max(1, parts) - 1))])

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return figures of queues: sums over all their shards; figures for claims only from their present shard."""
        for_claims, sums = FOR_CLAIMS.intersection(fields), [one for one in fields if one not in FOR_CLAIMS]
        found = {name: QueueStats() for name in queues}
        for shard, names in self._fleet.split([*found], lambda name: name):
            if not sums:
                names = [name for name in names if not self._fleet.is_held(name)]
                found |= shard.ask_if_up({}, shard.store.stats, names, fields) if names else {}
            else:
                found |= shard.ask(shard.store.stats, names, fields)
        if not sums:
            return found
        elsewhere: defaultdict[Shard, list[str]] = defaultdict(list)
        for name in found:
            if for_claims and self._fleet.is_held(name):
                found[name] = found[name]._replace(next_due=None, heads=())
            for shard in self._fleet.others(name):
                elsewhere[shard].append(name)
        for shard, names in elsewhere.items():
            for name, one in shard.ask(shard.store.stats, names, sums).items():
                found[name] = _sum(found[name], one)
        return found

    def lane_depths(self, queue: str, lanes: Sequence[int] | None, at_most: int) -> dict[int, int]:
        """Count the queued jobs of lanes of a physical queue."""
        shard = self._fleet.of(queue)
        return shard.ask(shard.store.lane_depths, queue, lanes, at_most)

    def queues(self, names: Iterable[str] | None) -> list[QueueSettings]:
        """Return settings of queues. For all: a shard that is down contributes the settings read last."""
        found: list[QueueSettings] = []
        if names is not None:
            for shard, of in self._fleet.split([*names], lambda name: name):
                found += shard.ask(shard.store.queues, of)
            return sorted(found, key=lambda one: one.name)
        for shard in self._fleet.all:
            known = self._settings[shard.name] = shard.ask_if_up(self._settings.get(shard.name, []), shard.store.queues)
            found += (one for one in known if self._fleet.of(one.name) is shard)
        return sorted(found, key=lambda one: one.name)

    def _having(self, queue: str) -> list[Shard]:
        """Return the shards that may have jobs or history of a physical queue."""
        return [self._fleet.of(queue), *self._fleet.others(queue)]

    def workers(self, *, holders: bool) -> list[WorkerRow]:
        """Return all workers, with the sums of their running jobs. Workers in a shard that is down are not counted."""
        found: dict[str, WorkerRow] = {}
        for shard in self._fleet.all:
            for row in shard.ask_if_up((), shard.store.workers, holders=holders):
                known = found.get(row.id)
                found[row.id] = row if known is None else replace(known, running=known.running + row.running)
        return list(found.values())


def _sum(one: QueueStats, other: QueueStats) -> QueueStats:
    return one._replace(
        states=one.states.plus(other.states),
        items=one.items.plus(other.items),
        chunks=one.chunks + other.chunks,
        totals=Counts(*map(sum, zip(one.totals, other.totals, strict=True))),
    )
