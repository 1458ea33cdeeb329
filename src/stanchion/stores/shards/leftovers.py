"""A shard's remains of partitions that have left it: brought to their present shards.

Finished jobs stay there. One that is to run again moves first, as finished, and is made ready in the shard of its
partition. Queued jobs are there if a program died in a push that was late: workers bring them, with their upkeep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from stanchion.errors import StoreUnavailable
from stanchion.stores.hand_over import hand_over, queued_portions
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.known_map import KnownMap
from stanchion.stores.shards.shard import Shard


class Leftovers:
    """Finds jobs in the former shards of partitions."""

    def __init__(self, fleet: Fleet, known_map: KnownMap) -> None:
        self._fleet, self._known_map = fleet, known_map

    def bring(self) -> None:
        """Bring queued jobs to the shards of their partitions. A shard that is down is left out."""
        queues: defaultdict[str, list[str]] = defaultdict(list)
        shard_map = self._known_map.current()
        for queue in shard_map.former:
            if not shard_map.is_held(queue):
                for name in shard_map.others(queue):
                    queues[name].append(queue)
        for name, of in queues.items():
            shard = self._fleet.named(name)
            stats = shard.ask_if_up({}, shard.store.stats, of, ["states"])
            for queue, one in stats.items():
                if one.states.total > one.states.running and not self._fleet.of(queue).down:
                    with suppress(StoreUnavailable):
                        self._bring(queue, shard, self._fleet.of(queue))

    def _bring(self, queue: str, here: Shard, there: Shard) -> None:
        for portion in queued_portions(here.named, queue):
            hand_over(here.named, there.named, portion)

    def take_home(self, ids: Sequence[str]) -> None:
        """Move finished jobs out of a shard that their partition has left."""
        shard_map = self._known_map.current()
        names = dict.fromkeys(
            name for queue in (*shard_map.former, *shard_map.moving) for name in shard_map.others(queue)
        )
        for name in names:
            shard = self._fleet.named(name)
            rows = shard.ask_if_up({}, shard.store.fetch, ids).values()
            away: defaultdict[str, list[JobRow]] = defaultdict(list)
            for row in rows:
                if row.finished_at is not None and shard_map.of(row.queue) != name:
                    away[shard_map.of(row.queue)].append(row)
            for home, some in away.items():
                hand_over(shard.named, self._fleet.named(home).named, some)
