"""A store of several shards: each verb goes to the shards concerned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from stanchion.core.names.partition_names import logical_name
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.ports import Extensible, OverShards, as_port
from stanchion.stores.protocol import Listener, Port, Store
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobRef, JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, Stat
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
from stanchion.stores.rules.shard_map import ShardMap
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.shards.claims import ShardClaims
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.known_map import LEASE_SECONDS, KnownMap
from stanchion.stores.shards.leftovers import Leftovers
from stanchion.stores.shards.pushing import ShardPushes
from stanchion.stores.shards.reading import ShardReading
from stanchion.stores.shards.record import MapRecord
from stanchion.stores.shards.refusals import Refusals
from stanchion.stores.shards.roster import Roster
from stanchion.stores.shards.shard import Shard
from stanchion.stores.shards.wakeup import ShardSignals

_QUEUE = attrgetter("queue")
_LEASED_IN = attrgetter("lease.queue")


class ShardedStore(Extensible):
    """Jobs in several stores.

    A job is in the shard of its physical queue. Values, semaphores, flows and staged jobs are in the default shard.
    """

    capabilities: Capabilities
    """What all shards can do that answered at the first use."""

    def __init__(self, given: ShardMap, roster: Roster, lease: float = LEASE_SECONDS) -> None:
        self._record = MapRecord(given, roster)
        self._known_map = known_map = KnownMap(self._record, self._follow, lease)
        self._fleet = fleet = Fleet(known_map, roster)
        self._refusals, self._leftovers = Refusals(known_map), Leftovers(fleet, known_map)
        self._reading, self._claims, self._pushes = (
            ShardReading(fleet),
            ShardClaims(fleet),
            ShardPushes(fleet, known_map),
        )
        self._signals = ShardSignals(fleet)
        self.fetch, self.partition = self._reading.fetch, self._reading.partition
        in_default = fleet.default.verb
        self.now, self.unstage = in_default("now"), in_default("unstage")
        self.semaphores = in_default("semaphores")
        self.flow_nodes, self.flow_ends = in_default("flow_nodes"), in_default("flow_ends")
        self.values, self.compare_and_set = in_default("values"), in_default("compare_and_set")

    def extension(self, port: type[Port]) -> Port | None:
        return as_port(self, port) if port is OverShards else super().extension(port)

    # -- the map of shards

    def shard_map(self) -> ShardMap:
        return self._known_map.read()

    def change_shard_map(self, change: Callable[[ShardMap], ShardMap]) -> ShardMap:
        self._record.change(change)
        return self._known_map.read()

    def shards(self) -> list[str]:
        return [shard.name for shard in self._fleet.all]

    def shard(self, name: str) -> Store:
        return self._fleet.named(name).named

    def _follow(self, before: ShardMap, now: ShardMap) -> None:
        self._signals.follow(queue for queue in {*before.moving, *now.former} if before.of(queue) != now.of(queue))

    # -- life of the store itself

    def __getattr__(self, name: str) -> object:
        """Ask the shards for their capabilities, at their first use: a manager has to be called for them."""
        if name != "capabilities":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        found = [shard.ask_if_up(None, getattr, shard.store, "capabilities") for shard in self._fleet.all]
        known = [one for one in found if one is not None]
        self.capabilities = Capabilities(
            name="shards",
            joins_transactions=False,
            push_wakeup=all(one.push_wakeup for one in known),
            wakeup="as its shards",
            atomic_batches=False,
            durable="as its shards",
            processes=all(one.processes for one in known),
        )
        return self.capabilities

    @property
    def clock_offset(self) -> float:
        return self._fleet.default.store.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        for shard in self._fleet.all:
            shard.store.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        return self._fleet.default.store.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        for shard in self._fleet.all:
            shard.store.lost_lease_delay = delay

    def setup(self, *, dry_run: bool = False) -> list[str]:
        if dry_run:
            raise InvalidInput("the steps differ from shard to shard: ask each shard by its own URL")
        steps = [step for shard in self._fleet.all for step in shard.ask(shard.store.setup)]
        self._record.write()
        return steps

    def check(self) -> None:
        for shard in self._fleet.all:
            try:
                shard.ask(shard.store.check)
                self._record.check(shard)
            except StoreUnavailable as error:
                if shard.is_default or error.lasting:
                    raise
        self._known_map.read()

    def close(self) -> None:
        self._signals.close()
        for shard in self._fleet.all:
            shard.close()

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, object], tx: object = None) -> QueueSettings:
        self._refusals.joining(tx)
        self._refusals.settings(queue, changes)
        self._known_map.current()
        if self._fleet.is_held(queue):  # its mover resumes it in its new shard
            changes = {name: value for name, value in changes.items() if name != "paused"}
        shard = self._fleet.of(queue)
        return shard.ask(shard.store.configure, queue, changes)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        return self._reading.queues(names)

    def drop_queue(self, queue: str) -> int:
        if any(logical_name(name) == logical_name(queue) for name in self._known_map.current().moving):
            raise InvalidInput(
                f"partitions of {logical_name(queue)!r} are on their way to another shard: "
                f"run `stanchion shards resume` first"
            )
        shards = [*self._fleet.others(queue), self._fleet.of(queue)]
        return sum(shard.ask(shard.store.drop_queue, queue) for shard in shards)

    # -- jobs in and out

    def push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        self._refusals.joining(tx)
        self._refusals.jobs(jobs)
        return self._pushes.push(jobs, claim, repeat=repeat)

    def claim(self, claim: Claim) -> Claimed:
        self._known_map.current()
        if not claim.rows:
            self._refusals.batch(claim.queue)
        return self._claims.claim(claim)

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        self._refusals.joining(tx)
        self._refusals.outcomes(outcomes)

        def settle(shard: Shard, some: Sequence[Outcome]) -> list[JobState | None]:
            return shard.ask(shard.store.settle, some, repeat=repeat)

        states = self._fleet.each(outcomes, _LEASED_IN, settle)
        for place, (outcome, state) in enumerate(zip(outcomes, states, strict=True)):
            others = self._fleet.others(outcome.lease.queue) if state is None else ()
            for shard in others:  # the job may run, or have ended, where the partition was
                states[place] = states[place] or settle(shard, [outcome])[0]
        return states

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        return self._fleet.recover(limit, as_of)

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        self._refusals.jobs(rows)
        return self._fleet.each(rows, _QUEUE, lambda shard, some: shard.ask(shard.store.adopt, some))

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        self._refusals.staged(jobs)
        self._fleet.default.ask(self._fleet.default.store.stage, write, attempt, jobs)

    def publish(self, publication: Publication) -> bool:
        self._refusals.publication(publication)
        return self._fleet.default.ask(self._fleet.default.store.publish, publication)

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        beats = [beat for shard in self._fleet.all if (beat := shard.beat(workers)) is not None]
        return beats[0]._replace(cancelled=[job for beat in beats for job in beat.cancelled])

    def leave(self, worker: str) -> None:
        for shard in self._fleet.all:
            shard.ask_if_up(None, shard.store.leave, worker)

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        return self._reading.workers(holders=holders)

    # -- reading

    def select(self, query: Query) -> Page:
        self._known_map.current()
        return self._reading.select(query)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        self._known_map.current()
        return self._reading.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        return self._reading.lane_depths(queue, lanes, at_most)

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        return self._fleet.first_known(ids, None, lambda shard, some: shard.ask(shard.store.cancel, some))

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        self._leftovers.take_home(ids)
        return self._fleet.first_known(ids, Redriven.MISSING, lambda shard, some: shard.ask(shard.store.retry, some))

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        if self._known_map.current().moving:  # a job may be in two shards
            found = [shard.ask(shard.store.delete, refs) for shard in self._fleet.all]
            return [any(of) for of in zip(*found, strict=True)]
        return self._fleet.first_known(refs, False, lambda shard, some: shard.ask(shard.store.delete, some))

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        self._leftovers.bring()
        share = seconds / len(self._fleet.all)
        behind = [shard.ask_if_up((), shard.store.maintain, share) for shard in self._fleet.all]
        return list(dict.fromkeys(queue for queues in behind for queue in queues))

    # -- semaphores and flows

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: object = None) -> bool:
        self._refusals.joining(tx)
        return self._fleet.default.ask(self._fleet.default.store.set_semaphore, name, capacity, declared=declared)

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        self._refusals.joining(tx)
        self._refusals.changes(changes)
        return self._fleet.default.ask(self._fleet.default.store.change_flows, changes)

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        return self._signals.listen(queues, finished, interchangeable=interchangeable)
