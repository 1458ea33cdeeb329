"""Reading shards: queries merged in order, figures and rows put together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, Stat
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.query import checked, cut, evenly, merged, several_of, value_of
from stanchion.stores.shards.fleet import Fleet

FOR_CLAIMS: frozenset[Stat] = frozenset(("next_due", "heads"))
"""Figures that tell what to claim: a shard that is down has none of them."""


class ShardReading:
    """Reads all shards that may have what is asked for."""

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
        """Return a page of a query; that of several shards is merged of a page of each."""
        checked(query)
        queue = value_of(query, "queue")
        queues = several_of(query, "queue") if queue is None else (queue,)
        shards = list(dict.fromkeys(map(self._fleet.of, queues))) or self._fleet.all
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
        """Return figures of queues, each of its shard."""
        found: dict[str, QueueStats] = {}
        for shard, names in self._fleet.split([*queues], lambda name: name):
            if FOR_CLAIMS.issuperset(fields):
                found |= shard.ask_if_up({name: QueueStats() for name in names}, shard.store.stats, names, fields)
            else:
                found |= shard.ask(shard.store.stats, names, fields)
        return {name: found[name] for name in queues}

    def lane_depths(self, queue: str, lanes: Sequence[int] | None, at_most: int) -> dict[int, int]:
        """Count the queued jobs of lanes of a physical queue."""
        shard = self._fleet.of(queue)
        return shard.ask(shard.store.lane_depths, queue, lanes, at_most)

    def queues(self, names: Iterable[str] | None) -> list[QueueSettings]:
        """Return settings of queues. Of all: those of a shard that is down as they were read last."""
        found: list[QueueSettings] = []
        if names is not None:
            for shard, of in self._fleet.split([*names], lambda name: name):
                found += shard.ask(shard.store.queues, of)
            return sorted(found, key=lambda one: one.name)
        for shard in self._fleet.all:
            known = self._settings[shard.name] = shard.ask_if_up(self._settings.get(shard.name, []), shard.store.queues)
            found += (one for one in known if self._fleet.of(one.name) is shard)
        return sorted(found, key=lambda one: one.name)

    def workers(self, *, holders: bool) -> list[WorkerRow]:
        """Return all workers, with the sums of their running jobs. Those in a shard that is down are not counted."""
        found: dict[str, WorkerRow] = {}
        for shard in self._fleet.all:
            for row in shard.ask_if_up((), shard.store.workers, holders=holders):
                known = found.get(row.id)
                found[row.id] = row if known is None else replace(known, running=known.running + row.running)
        return list(found.values())
