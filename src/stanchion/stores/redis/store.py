"""The Redis store: its collaborators, and which of them each verb of the port is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from stanchion.errors import CannotJoin
from stanchion.stores.cas import flows, settle
from stanchion.stores.cas.admission import Admission
from stanchion.stores.cas.claim import Claims
from stanchion.stores.cas.jobs import JobLoop
from stanchion.stores.cas.operate import Operator
from stanchion.stores.cas.outbox import Outbox
from stanchion.stores.cas.push import Starts
from stanchion.stores.cas.slots import Slots
from stanchion.stores.cas.staging import Staging
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.ports import Extensible
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.redis import CAPABILITIES
from stanchion.stores.redis.claim import DueJobs
from stanchion.stores.redis.client.places import Places
from stanchion.stores.redis.client.schema import Schema
from stanchion.stores.redis.client.server import Server
from stanchion.stores.redis.flows.flows import Assembly, Flows
from stanchion.stores.redis.flows.nodes import Nodes
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.redis.operate import Adoption, Overdue, Removal, Upkeep
from stanchion.stores.redis.push import Pushes
from stanchion.stores.redis.query import Queries
from stanchion.stores.redis.queues import Queues, Stats
from stanchion.stores.redis.settle import Outcomes
from stanchion.stores.redis.slots import Semaphores, SlotRows
from stanchion.stores.redis.staging import PreparedPushes, StageRows
from stanchion.stores.redis.values import Values
from stanchion.stores.redis.wakeup import StreamSignals
from stanchion.stores.redis.workers import Workers
from stanchion.stores.rules.capacity.declared_rates import CachedRates
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
from stanchion.stores.wakeup.values import with_signs


class RedisStore(Extensible):
    """Jobs in Redis."""

    def __init__(self, server: Server) -> None:
        self.capabilities = replace(CAPABILITIES, atomic_pushes=not server.address.cluster)
        self.server, self._signals = server, StreamSignals(server, server.keys.queue)
        self._jobs = jobs = Jobs(server, Places(server))
        self._slot_rows, values = SlotRows(jobs), Values(server)
        self._nodes = Nodes(jobs, self._slot_rows)
        # Applying an entry may store jobs, and storing a job may write an entry: the parts refer to each other.
        pushes = Pushes(jobs, lambda entries: self._outbox.follow_up(entries))
        slots = Slots(jobs, self._slot_rows)
        ends = flows.Flows(jobs, self._nodes, slots, pushes.push)
        self._assembly = assembly = Assembly(server, self._nodes, pushes, ends)
        self._outbox = outbox = Outbox(jobs, slots, ends, assembly, pushes)
        loop = JobLoop(jobs, outbox.follow_up)

        operator, settled = Operator(loop), settle.Outcomes(loop)
        self._workers = workers = Workers(jobs)
        self._lost = LostJobs(loop, workers, lambda: upkeep.recover_outbox(), values)
        self._outcomes = Outcomes(jobs, settled)
        self._due = due = DueJobs(jobs, slots, self._lost)
        rates = CachedRates()
        admission = Admission(loop, slots, operator.cancel, partial(rates.of, read=values.values))
        claims = Claims(due, admission, settled)
        self._pushes, self._starts = pushes, Starts(jobs, pushes, claims.claim)
        self._semaphores = Semaphores(jobs, self._slot_rows, slots)
        self._flows = Flows(server, self._nodes, pushes, ends, assembly, operator)
        self._stage = stage = StageRows(server, values, pushes, due.ids_reserved)
        prepared = PreparedPushes(jobs)
        self._staging = Staging(stage, pushes, prepared, values.compare_and_set, self._outcomes.settle)
        queries = Queries(jobs, self._nodes, due.ids_reserved, self._slot_rows)
        stats = Stats(server, jobs.places)
        self._queues = queues = Queues(jobs, loop, outbox.follow_up)
        recoveries = (self._flows.recover, outbox.recover, ends.recover, slots.recover, self._staging.recover)
        overdue = Overdue(jobs, operator.end_overdue)
        upkeep = Upkeep(jobs, recoveries, queues, workers, self._flows, stage, overdue)

        schema = Schema(server)
        self.setup, self.check, self.now, self.listen = schema.setup, schema.check, server.now, self._signals.listen
        self.queues, self.drop_queue = queues.queues, queues.drop_queue
        self.claim, self.recover = claims.claim, self._lost.recover
        self.stage, self.publish, self.unstage = stage.stage, self._staging.publish, self._staging.unstage
        self.prepare, self.stage_prepared = prepared.prepare, stage.stage_prepared
        self.publish_prepared = self._staging.publish_prepared
        self.beat, self.leave, self.workers = workers.beat, workers.leave, workers.workers
        self.fetch, self.select, self.partition = queries.fetch, queries.select, queries.partition
        self.stats, self.lane_depths = stats.stats, stats.lane_depths
        self.cancel, self.retry = operator.cancel, operator.retry
        self.delete, self.adopt = Removal(jobs, outbox.follow_up).delete, Adoption(jobs).adopt
        self.maintain, self.semaphores = upkeep.maintain, self._semaphores.semaphores
        self.flow_nodes, self.flow_ends = self._nodes.flow_nodes, self._nodes.flow_ends
        self.values = values.values
        self.compare_and_set = with_signs(rates.noticing(values.compare_and_set), self._signals.announce)

    @property
    def clock_offset(self) -> float:
        """Seconds added to the server's clock, for tests."""
        return self.server.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self.server.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        """The wait of a job from its second lost lease on."""
        return self._lost.delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._lost.delay = delay

    def close(self) -> None:
        """Release connections; a later call opens them again."""
        self._signals.close()
        self.server.close()

    # -- the verbs with a transaction of the caller, which only settings ignore

    def configure(self, queue: str, changes: Mapping[str, object], tx: object = None) -> QueueSettings:
        return self._queues.configure(queue, changes)

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: object = None) -> bool:
        return self._semaphores.set_semaphore(name, capacity, declared=declared)

    def push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        _refuse(tx)
        return self._pushes.push_new(jobs).pushed if claim is None else self._starts.push(jobs, claim)

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        _refuse(tx)
        return self._outcomes.settle(outcomes, repeat=repeat)

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        _refuse(tx)
        return flows.change_flows(self._flows, changes)


def _refuse(tx: object) -> None:
    if tx is not None:
        raise CannotJoin(
            "Redis has no transactions that a job could be part of; leave tx out, or use a store on the database that "
            "holds your transaction"
        )
