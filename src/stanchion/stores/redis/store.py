"""The Redis store: its collaborators, and the verbs of the port."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from stanchion.errors import CannotJoin
from stanchion.stores.cas import claim, flows, settle
from stanchion.stores.cas.admission import Admission
from stanchion.stores.cas.jobs import JobLoop
from stanchion.stores.cas.operate import Operator
from stanchion.stores.cas.outbox import Outbox
from stanchion.stores.cas.slots import Slots
from stanchion.stores.cas.staging import Staging
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.protocol import Listener
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange, FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, SemaphoreRow, Stat
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.redis import CAPABILITIES
from stanchion.stores.redis.claim import Claims, DueJobs
from stanchion.stores.redis.client.places import Places
from stanchion.stores.redis.client.schema import Schema
from stanchion.stores.redis.client.server import Server
from stanchion.stores.redis.flows import Assembly, Flows
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.redis.nodes import Nodes
from stanchion.stores.redis.operate import Removal, Upkeep, adopt
from stanchion.stores.redis.push import Pushes
from stanchion.stores.redis.query import Queries
from stanchion.stores.redis.queues import Queues
from stanchion.stores.redis.settle import Outcomes
from stanchion.stores.redis.slots import Semaphores, SlotRows
from stanchion.stores.redis.staging import StageRows
from stanchion.stores.redis.stats import Stats
from stanchion.stores.redis.values import Values
from stanchion.stores.redis.wakeup import StreamSignals
from stanchion.stores.redis.workers import Workers
from stanchion.stores.rules.lost_leases import LostLeaseDelay
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS


class RedisStore:
    """Jobs in Redis."""

    capabilities = CAPABILITIES

    def __init__(self, server: Server) -> None:
        self.server, self._schema, self._signals = server, Schema(server), StreamSignals(server, server.keys.queue)
        self._jobs = jobs = Jobs(server, Places(server))
        self._slot_rows, self._values = SlotRows(jobs), Values(server)
        self._nodes = Nodes(jobs, self._slot_rows)
        # To apply an entry may store jobs, and to store a job may write an entry.
        self._pushes = pushes = Pushes(jobs, lambda entries: self._outbox.follow_up(entries))
        slots = Slots(jobs, self._slot_rows)
        ends = flows.Flows(jobs, self._nodes, slots, pushes.push)
        self._assembly = assembly = Assembly(server, self._nodes, pushes, ends)
        self._outbox = outbox = Outbox(jobs, slots, ends, assembly, pushes)
        loop = JobLoop(jobs, outbox.follow_up)

        self._operator, self._settled = Operator(loop), settle.Outcomes(loop)
        self._workers = Workers(jobs)
        self._lost = LostJobs(loop, self._workers, lambda: self._upkeep.recover_outbox())
        self._outcomes = Outcomes(jobs, self._settled)
        self._due = due = DueJobs(jobs, slots, self._lost)
        admission = Admission(loop, slots, self._operator.cancel)
        self._claims = Claims(jobs, due, claim.Claims(due, admission, self._settled))
        self._semaphores = Semaphores(jobs, self._slot_rows, slots)
        self._flows = Flows(server, self._nodes, pushes, ends, assembly, self._operator)
        self._stage = StageRows(server, self._values, pushes, self._claims.batches)
        self._staging = Staging(self._stage, pushes, self._values.compare_and_set, self._outcomes.settle)
        self._queries = Queries(jobs, self._nodes, self._claims.batches, self._slot_rows)
        self._stats = Stats(server, server.keys.queue)
        self._queues, self._removal = Queues(jobs, loop, outbox.follow_up), Removal(jobs, outbox.follow_up)
        recoveries = (self._flows.recover, outbox.recover, ends.recover, slots.recover, self._staging.recover)
        self._upkeep = Upkeep(jobs, recoveries, self._queues, self._workers, self._flows, self._stage)

    @property
    def clock_offset(self) -> float:
        """Seconds added to the server's clock, for tests."""
        return self.server.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self.server.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        """For how long a job waits from its second lost lease on."""
        return self._lost.delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._lost.delay = delay

    # -- the store itself

    def setup(self, *, dry_run: bool = False) -> list[str]:
        """Write the version of the keys; there is nothing else to make."""
        return self._schema.set_up(dry_run=dry_run)

    def check(self) -> None:
        """Raise StoreUnavailable or SchemaMismatch unless the store can be used; writes nothing."""
        self._schema.check()

    def close(self) -> None:
        """Release connections; a later call opens them anew."""
        self._signals.close()
        self.server.close()

    def now(self) -> int:
        """Return the server's clock."""
        return self.server.now()

    def transaction(self) -> AbstractContextManager[Any]:
        """Raise CannotJoin."""
        raise _cannot_join()

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        """Make the queue if need be, apply the changes, return its settings."""
        return self._queues.configure(queue, changes)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of those of these names that there are."""
        return self._queues.queues(names)

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""
        return self._queues.drop_queue(queue)

    # -- jobs in and out

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        """Store jobs, in order; all of one queue in one step, up to two thousand."""
        _refuse(tx)
        return self._pushes.push(jobs)

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs that have their slots; park or defer those that have not."""
        return self._claims.claim(claim)

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes of reservations: plain commits in one step per queue, others each in its own."""
        _refuse(tx)
        return self._outcomes.settle(outcomes, repeat=repeat)

    # -- looking

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""
        return self._queries.fetch(ids)

    def select(self, query: Query) -> Page:
        """Return a page of the jobs that meet the conditions."""
        return self._queries.select(query)

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Cut a query into up to `parts` queries of about as many jobs each."""
        return self._queries.partition(query, parts)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        return self._stats.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        return self._stats.lane_depths(queue, lanes, at_most)

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs: live ones at once, a running one is asked to stop; return the states after it."""
        return self._operator.cancel(ids)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all attempts before them, same id."""
        return self._operator.retry(ids)

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        return self._removal.discard(ends)

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that another store has adopted, queued or finished; return the ids of those deleted."""
        return self._removal.take(ids)

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store as they are there; False for each whose key a live job has."""
        return adopt(self._jobs, rows)

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended `older_than` seconds ago (None: the queue's ttl)."""
        return self._queues.purge(queue, older_than, limit)

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Purge what history no longer keeps, bring jobs to where they are going, remove queues that have expired."""
        return self._upkeep.maintain(seconds)

    # -- semaphores and flows

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        """Make a semaphore, or change its capacity: waiters get what is free now; holders beyond it finish."""
        return self._semaphores.set_semaphore(name, capacity, declared=declared)

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or those of these names that there are."""
        return self._semaphores.semaphores(names)

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        """Open, extend, close and stop flows, one after the other; tell for each whether it was done."""
        _refuse(tx)
        return flows.change_flows(self._flows, changes)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, in the order of their ids."""
        return self._nodes.flow_nodes(root)

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return how members of a node have ended, by index, from behind `after` on."""
        return self._nodes.flow_ends(node, after, limit)

    # -- staging

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Lay jobs aside under a write and an attempt."""
        self._stage.stage(write, attempt, jobs)

    def publish(self, publication: Publication) -> bool:
        """Store staged jobs, or finish reserved jobs, once; then clear the stage."""
        return self._staging.publish(publication)

    def unstage(self, write: str) -> None:
        """Forget what is staged under a write."""
        self._stage.unstage(write)

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive."""
        return self._workers.beat(workers)

    def leave(self, worker: str) -> None:
        """Forget a worker that has given back all its jobs."""
        self._workers.leave(worker)

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, also those that are late, with their number of running jobs."""
        return self._workers.workers()

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        """Give back jobs whose lease ran out or whose worker is dead; return them as they are now."""
        return self._lost.recover(limit, as_of)

    # -- versioned values and wake-up

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all of them, or those of these names that there are."""
        return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write, or with None delete, a value whose version is still the given one; 0: it is absent."""
        return self._values.compare_and_set(kind, name, text, version)

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        """Start listening for work in these queues, and for ends of jobs in those of `finished`."""
        return self._signals.listen(queues, finished, interchangeable=interchangeable)


def _refuse(tx: Any) -> None:
    if tx is not None:
        raise _cannot_join()


def _cannot_join() -> CannotJoin:
    return CannotJoin(
        "Redis has no transactions that a job could be part of; leave tx out, or use a store on the database that "
        "holds your transaction"
    )
