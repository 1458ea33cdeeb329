"""Two ways to have many shards, and the managers that serve them.

`partitions`: one database that distributes itself, a queue with a partition for each shard, a slice each. All managers
have their sessions in this one store.

`databases`: each shard is a database with a queue of 64 lanes, served by a few managers, one in each zone. A manager
has a session in each of its databases.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from benchmarks.scale.costs import Costs, Size
from benchmarks.scale.events import Events
from benchmarks.scale.jobs import Jobs, Shard
from benchmarks.scale.leading import Leader
from benchmarks.scale.owners import Owners
from benchmarks.scale.values import Values

PARTITIONS, DATABASES = "partitions", "databases"
LAYOUTS = (PARTITIONS, DATABASES)


class World:
    """Shards, stores, and managers as processes with numbers; the zone of a process is its number modulo the zones."""

    def __init__(self, layout: str, managers: int, size: Size, costs: Costs, seed: int) -> None:
        self.layout, self.size, self.costs = layout, size, costs
        self.events, self.random = Events(), Random(f"{seed} {layout} {managers}")
        self.owners = Owners(self.events)
        self.jobs = Jobs(self.events, self.owners, size, costs, self.random)
        self.hosts: dict[int, list[Leader]] = {}
        """The leaders of each process alive."""
        if layout == PARTITIONS:
            self.stores = [Values(self.events, {f"orders#{number}": 1 for number in range(size.shards)})]
        else:
            self.stores = [Values(self.events, {f"orders-{n}": size.slices}) for n in range(size.shards)]
        self.leaders: list[list[Leader]] = [[] for _ in self.stores]
        """Of each store."""
        self._by_session: dict[str, Leader] = {}
        self.shards = self._shards()
        self._hosts_made, self._first = 0, managers
        for _ in range(managers):
            self.start()

    def _shards(self) -> list[Shard]:
        size = self.size
        receivers = size.receivers // size.shards
        named: list[tuple[Sequence[str], list[Leader]]]
        if self.layout == PARTITIONS:
            named = [([name], self.leaders[0]) for name in self.stores[0].slices]
        else:
            named = [(list(one.slices), leaders) for one, leaders in zip(self.stores, self.leaders, strict=True)]
        shards = [Shard(names, leaders, receivers, size.room) for names, leaders in named]
        self.jobs.shard_of = {name: shard for shard in shards for name in shard.names}
        return shards

    @property
    def owners_of_a_shard(self) -> int:
        """Managers that have slices of a shard, and so streams of its receivers."""
        return 1 if self.layout == PARTITIONS else self.size.serving

    def settle(self) -> None:
        """Let the managers take all slices."""
        self.events.run(self.events.now + 2 * self.costs.lease)
        self.check_assigned()

    def push(self, rate: float, each: int = -1) -> None:
        """Begin to push to each shard, at this rate a second; `each`: so many jobs, -1 without end."""
        for shard in self.shards:
            self.events.after(self.random.expovariate(rate), self.jobs.arrive, shard, rate, each)

    # -- processes

    def start(self) -> int:
        """Start a process; return its number."""
        number, self._hosts_made = self._hosts_made, self._hosts_made + 1
        self.hosts[number] = [
            self._lead(store, number) for store in range(len(self.stores)) if self._serves(number, store)
        ]
        return number

    def _serves(self, number: int, store: int) -> bool:
        """Tell whether a process serves a store: of each zone one process does, for as many zones as serve it.

        One that comes later serves, in addition, each store whose number ends like its own.
        """
        if self.layout == PARTITIONS:
            return True
        in_zone = self._first // self.size.zones
        if number >= self._first:
            return store % in_zone == number % in_zone
        return number % self.size.zones < self.size.serving and store % in_zone == number // self.size.zones

    def _lead(self, store: int, host: int) -> Leader:
        leader = Leader(self.events, self.stores[store], self.costs, self.random, self.owners, host)
        leader.tell = self._tell
        self._by_session[leader.session] = leader
        self.leaders[store].append(leader)
        return leader

    def _tell(self, sessions: Sequence[str]) -> None:
        for session in sessions:
            self.events.after(self.costs.signal_wait, self._by_session[session].wake)

    def kill(self, numbers: Sequence[int]) -> None:
        """Let processes die at once."""
        dead = [leader for number in numbers for leader in self.hosts.pop(number)]
        for leader in dead:
            leader.kill()
        for leader in dead:
            self.jobs.died(leader)

    def leave(self, number: int) -> None:
        """Let a process stop in order."""
        for leader in self.hosts.pop(number):
            leader.leave()

    def zone(self, zone: int) -> list[int]:
        """Return the processes of a zone."""
        return [number for number in self.hosts if number % self.size.zones == zone]

    # -- what must be true

    def check_assigned(self) -> None:
        """Each slice is served by whom the store says, and a queue has slices evenly."""
        for store, leaders in zip(self.stores, self.leaders, strict=True):
            alive = [leader for leader in leaders if leader.alive]
            assert store.sessions.keys() == {leader.session for leader in alive}
            for name, row in store.rows.items():
                assert self.owners.of[name].session == row.owner, name
                assert name in self.owners.of[name].mine
            assert store.rows.keys() == store.slices.keys()
            shares: dict[tuple[str, str], int] = {}
            for row in store.rows.values():
                key = (row.queue, row.owner or "")
                shares[key] = shares.get(key, 0) + 1
            for queue in {row.queue for row in store.rows.values()}:
                of_each = [shares.get((queue, leader.session), 0) for leader in alive]
                assert max(of_each) - min(of_each) <= 1, queue
