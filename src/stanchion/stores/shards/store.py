"""A store of several shards: each verb goes to the shards that have what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.protocol import Listener
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobRef, JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules.lost_leases import LostLeaseDelay
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.shards.claims import ShardClaims
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.map import ShardMap
from stanchion.stores.shards.reading import ShardReading
from stanchion.stores.shards.record import MapRecord
from stanchion.stores.shards.refusals import Refusals
from stanchion.stores.shards.shard import Shard
from stanchion.stores.shards.wakeup import ShardSignals

_QUEUE = attrgetter("queue")
_LEASED_IN = attrgetter("lease.queue")


class ShardedStore:
    """Jobs in several stores.

    A job is in the shard of its physical queue. Values, semaphores, flows and staged jobs are in the default shard.
    """

    capabilities: Capabilities
    """What all shards can do that answered at the first use."""

    def __init__(self, chart: ShardMap, shards: Mapping[str, Shard]) -> None:
        self.chart = chart
        self._fleet = fleet = Fleet(chart, shards)
        self._refusals = Refusals(chart)
        self._reading, self._claims = ShardReading(fleet), ShardClaims(fleet.of)
        self._signals, self._record = ShardSignals(fleet), MapRecord(chart, fleet)
        self.fetch, self.select, self.partition = self._reading.fetch, self._reading.select, self._reading.partition
        self.stats = self._reading.stats
        in_default = fleet.default.verb
        self.now, self.unstage = in_default("now"), in_default("unstage")
        self.semaphores = in_default("semaphores")
        self.flow_nodes, self.flow_ends = in_default("flow_nodes"), in_default("flow_ends")
        self.values, self.compare_and_set = in_default("values"), in_default("compare_and_set")

    # -- life of the store itself

    def __getattr__(self, name: str) -> Any:
        """Ask the shards for their capabilities, at their first use: that of a manager has to be called for them."""
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
            raise InvalidInput("the steps differ from shard to shard: ask for those of each by its own URL")
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

    def close(self) -> None:
        self._signals.close()
        for shard in self._fleet.all:
            shard.close()

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        self._refusals.joining(tx)
        self._refusals.settings(queue, changes)
        shard = self._fleet.of(queue)
        return shard.ask(shard.store.configure, queue, changes)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        return self._reading.queues(names)

    def drop_queue(self, queue: str) -> int:
        shard = self._fleet.of(queue)
        return shard.ask(shard.store.drop_queue, queue)

    # -- jobs in and out

    def push(
        self, jobs: Sequence[NewJob], tx: Any = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        self._refusals.joining(tx)
        self._refusals.jobs(jobs)
        claims_in = None if claim is None else self._fleet.of(claim.queue)

        def push(shard: Shard, some: list[NewJob]) -> list[Pushed]:
            return shard.ask(shard.store.push, some, claim=claim if shard is claims_in else None, repeat=repeat)

        return self._fleet.each(jobs, _QUEUE, push)

    def claim(self, claim: Claim) -> Claimed:
        if not claim.rows:
            self._refusals.batch(claim.queue)
        return self._claims.claim(claim)

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        self._refusals.joining(tx)
        self._refusals.outcomes(outcomes)
        return self._fleet.each(
            outcomes, _LEASED_IN, lambda shard, some: shard.ask(shard.store.settle, some, repeat=repeat)
        )

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

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        return self._reading.lane_depths(queue, lanes, at_most)

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        return self._fleet.first_known(ids, None, lambda shard, some: shard.ask(shard.store.cancel, some))

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        return self._fleet.first_known(ids, Redriven.MISSING, lambda shard, some: shard.ask(shard.store.retry, some))

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        return self._fleet.first_known(refs, False, lambda shard, some: shard.ask(shard.store.delete, some))

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        share = seconds / len(self._fleet.all)
        behind = [shard.ask_if_up((), shard.store.maintain, share) for shard in self._fleet.all]
        return list(dict.fromkeys(queue for queues in behind for queue in queues))

    # -- semaphores and flows

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        self._refusals.joining(tx)
        return self._fleet.default.ask(self._fleet.default.store.set_semaphore, name, capacity, declared=declared)

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        self._refusals.joining(tx)
        self._refusals.changes(changes)
        return self._fleet.default.ask(self._fleet.default.store.change_flows, changes)

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        return self._signals.listen(queues, finished, interchangeable=interchangeable)
