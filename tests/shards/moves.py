"""Shards of stores in memory, movers of their partitions, and deaths of movers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, cast

from stanchion.copying.moving import Moved, PartitionMover
from stanchion.core.ids import new_id
from stanchion.partitions.store import PartitionedStore
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.rules.shard_map import ShardMap
from stanchion.stores.shards.roster import Roster
from stanchion.stores.shards.store import ShardedStore

QUEUE = "orders"
PARTITIONS = 4


class Killed(BaseException):
    """The process is dead."""


class Mortal:
    """Passes calls on, until the one before which the process dies; `calls` counts those of all stores together."""

    def __init__(self, store: Store, calls: list[str], last: float) -> None:
        self._store, self._calls, self._last = store, calls, last

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._counted(name, found) if callable(found) else found

    def _counted(self, name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if len(self._calls) >= self._last:
                raise Killed
            self._calls.append(name)
            return verb(*args, **named)

        return call


def sharded(stores: dict[str, Any], places: dict[str, str], lease: float = 0.0) -> ShardedStore:
    """A program's store. Without a lease, it proves each push."""
    given = ShardMap("one", {f"{QUEUE}#{name[1:]}": shard for name, shard in places.items()})
    return ShardedStore(given, Roster("one", stores, dict, lambda _url: cast(Store, None)), lease)


class Meddled:
    """Passes calls on; before each, something else happens."""

    def __init__(self, store: Store, before: Callable[[str], None]) -> None:
        self._store, self._before = store, before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def call(*args: Any, **named: Any) -> Any:
            self._before(name)
            return found(*args, **named)

        return call if callable(found) else found


class Shards:
    """Four stores, the partitions of a queue in two of them, and a program that pushes and works."""

    def __init__(self, history_ttl: float = 3600.0, stores: Sequence[Any] = (), **places: str) -> None:
        self.places = {"p1": "one", "p2": "two", "p3": "two", **places}
        names = ("one", "two", "three", "four")
        self.stores: dict[str, Any] = dict(zip(names, stores or [MemoryStore() for _ in names], strict=True))
        store = self.opened()
        store.setup()
        self.client = PartitionedStore(store)
        self.client.configure(QUEUE, {"partitions": PARTITIONS, "history_ttl": history_ttl})
        self.pushed: list[str] = []
        self.done: list[str] = []

    def opened(self, **options: Any) -> ShardedStore:
        return sharded({**self.stores}, self.places, **options)

    def mover(self, calls: list[str] | None = None, last: float = float("inf"), **options: Any) -> PartitionMover:
        """A mover, which dies before a call of a store."""
        mortal = {name: Mortal(store, [] if calls is None else calls, last) for name, store in self.stores.items()}
        store = sharded(mortal, self.places)
        return PartitionMover(store, **{"settle": 0.0, "wait": 0.0, **options})

    def meddled(self, before: Callable[[str], None], **options: Any) -> PartitionMover:
        """A mover, before each call of which something else happens."""
        stores = {name: Meddled(store, before) for name, store in self.stores.items()}
        return PartitionMover(sharded(stores, self.places), **{"settle": 0.0, "wait": 0.0, **options})

    def late(self, verb: str, then: Callable[[], object], lease: float = 0.0) -> PartitionedStore:
        """A program that is stopped before its first call of a verb of some shard, until something has happened."""
        waiting = [then]

        def before(name: str) -> None:
            if name == verb and waiting:
                waiting.pop()()

        stores = {name: Meddled(store, before) for name, store in self.stores.items()}
        return PartitionedStore(sharded(stores, self.places, lease))

    def plan(self, *moves: tuple[int, str]) -> None:
        for number, to in moves:
            self.opened().change_shard_map(methodcaller("planned", [f"{QUEUE}#{number}"], to))

    def moved(self, *moves: tuple[int, str], **options: Any) -> list[Moved]:
        """Move partitions."""
        self.plan(*moves)
        return self.mover(**options).run()

    def later(self, seconds: float = 100.0) -> None:
        """Let movers that died look dead."""
        for store in self.stores.values():
            store.clock_offset += seconds

    def push(self, count: int = 1, **options: Any) -> list[str]:
        """Store jobs in all partitions."""
        jobs = [new_order(**options) for _ in range(count)]
        self.client.push(jobs)
        self.pushed += [job.id for job in jobs]
        return [job.id for job in jobs]

    def work(self, most: int = 1000) -> None:
        """Do jobs."""
        for _ in range(PARTITIONS + 1):
            rows = self.client.claim(Claim(QUEUE, most, new_id(), lease=60.0)).rows
            states = self.client.settle([Commit(row.lease) for row in rows])
            assert states == [JobState.DONE] * len(rows)
            self.done += [row.id for row in rows]

    def place(self, number: int) -> str:
        return self.opened().shard_map().of(f"{QUEUE}#{number}")


def new_order(**options: Any) -> NewJob:
    return NewJob(**{"id": new_id(), "queue": QUEUE, "payload": json.dumps({}), **options})
