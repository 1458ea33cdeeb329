"""Which partitions are to change their shard: plans, put on record in the map, and what became of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from stanchion.core.names.partition_names import logical_name, partition_name, partition_number, ranges_of
from stanchion.errors import InvalidInput
from stanchion.stores.ports import OverShards, Partitions
from stanchion.stores.protocol import Store
from stanchion.stores.rules.shard_map import Phase, ShardMap


class Placed(NamedTuple):
    """Partitions of a queue in one shard, `partitions` such as "0-3,8", and the number of their live jobs.

    `to`, `phase`: of their move; None: they stay.
    """

    queue: str
    shard: str
    partitions: str
    live: int
    to: str | None = None
    phase: Phase | None = None


class Plans:
    """Plans of moves, for a store of several shards. InvalidInput for another store."""

    def __init__(self, store: Store) -> None:
        over = store.extension(OverShards)
        if over is None:
            raise InvalidInput("this store has no shards: give the URL of a map, such as shards:///shards.toml")
        self.over, self._store, self._known = over, store, store.extension(Partitions)

    def places(self) -> list[Placed]:
        """Return where the partitions of all queues are, by queue and shard."""
        shard_map = self.over.shard_map()
        found: list[Placed] = []
        for queue in self._queues():
            names = self._partitions(queue)
            live = self.live(names)
            groups: dict[tuple[str, str | None, Phase | None], list[str]] = {}
            for name in names:
                to, phase = shard_map.moving.get(name, (None, None))
                groups.setdefault((shard_map.source(name), to, phase), []).append(name)
            for (shard, to, phase), some in groups.items():
                found.append(Placed(queue, shard, _ranges(some), sum(live[name] for name in some), to, phase))
        return found

    def live(self, partitions: Sequence[str]) -> dict[str, int]:
        """Return the numbers of live jobs of partitions."""
        return {name: one.states.total for name, one in self._store.stats(partitions, ["states"]).items()}

    def some(self, queue: str, numbers: Iterable[int]) -> list[str]:
        """Return partitions of a queue by their numbers."""
        names = [partition_name(queue, number) for number in sorted(set(numbers))]
        if unknown := set(names) - set(self._partitions(queue)):
            raise InvalidInput(f"queue {queue!r} has no partition {_ranges(sorted(unknown))}")
        return names

    def half(self, shard: str, queues: Collection[str] = ()) -> list[str]:
        """Return the upper half of the partitions that a shard has of each queue, or of each of these."""
        shard_map, found = self.over.shard_map(), list[str]()
        self._refuse_unknown(shard)
        for queue in queues or self._queues():
            there = [
                name for name in self._partitions(queue) if shard_map.of(name) == shard and name not in shard_map.moving
            ]
            found += there[(len(there) + 1) // 2 :]
        return found

    def put(self, partitions: Sequence[str], to: str) -> list[str]:
        """Put moves on record; return the partitions that are not there yet.

        InvalidInput if other moves are on record, as a repeated command would plan more, or if they can't be moved.
        """
        self._refuse_unknown(to)
        for queue in {logical_name(name) for name in partitions}:
            settings = self._store.queues([queue])
            if settings and settings[0].dead_letter is not None:
                raise InvalidInput(
                    f"queue {queue!r} has a dead_letter queue, which may be in another shard then: take it away first"
                )
        new: list[str] = []

        def planned(shard_map: ShardMap) -> ShardMap:
            if shard_map.moving:
                raise InvalidInput("moves are on record already: run `stanchion shards resume`, or `abandon`")
            new[:] = [name for name in partitions if shard_map.of(name) != to]
            return shard_map.planned(new, to)

        self.over.change_shard_map(planned)
        return new

    def abandon(self) -> int:
        """Take moves that have not begun off the record; return their number."""
        gone: list[str] = []

        def without(shard_map: ShardMap) -> ShardMap:
            gone[:] = [name for name, move in shard_map.moving.items() if move.phase == "planned"]
            return shard_map.without(gone)

        self.over.change_shard_map(without)
        return len(gone)

    def _queues(self) -> list[str]:
        return [] if self._known is None else sorted(self._known.partitioned())

    def _partitions(self, queue: str) -> list[str]:
        names = () if self._known is None else self._known.partitions_of(queue)
        if not names:
            raise InvalidInput(f"queue {queue!r} has no partitions, so it stays in the default shard")
        return list(names[1:])

    def _refuse_unknown(self, shard: str) -> None:
        if shard not in (known := self.over.shards()):
            raise InvalidInput(f"{shard!r} is no shard: the file of the map has {', '.join(known)}")


def _ranges(names: Sequence[str]) -> str:
    return ranges_of([number for name in names if (number := partition_number(name)) is not None])
