"""The memory store: each verb is done by one collaborator, under the one lock."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.memory.claim import Claims
from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Clock, FrozenClock, Jobs, SteadyClock
from stanchion.stores.memory.operate import Operations
from stanchion.stores.memory.push import Pushes
from stanchion.stores.memory.query import Queries
from stanchion.stores.memory.queues import Queues
from stanchion.stores.memory.settle import Outcomes
from stanchion.stores.memory.slots import Slots
from stanchion.stores.memory.staging import Staging
from stanchion.stores.memory.values import Values
from stanchion.stores.memory.workers import Workers
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import FlowChange, FlowNode, MemberEnd
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, SemaphoreRow, Stat
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules.lost_leases import LostLeaseDelay
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.wakeup.listeners import EventListener, Listeners

CAPABILITIES = Capabilities(
    name="memory",
    joins_transactions=False,
    push_wakeup=True,
    wakeup="in the process",
    atomic_batches=True,
    durable="until the process ends",
    processes=False,
)


class MemoryStore:
    """Jobs in this process, gone with it.

    A verb takes the lock, and its collaborator does the rest: collaborators expect the lock to be held.
    """

    capabilities = CAPABILITIES

    def __init__(self, clock: Clock | None = None, listeners: Listeners | None = None) -> None:
        self._lock = threading.Lock()
        self._listeners = Listeners() if listeners is None else listeners
        self._clock = SteadyClock() if clock is None else clock
        self._values = Values()
        self._jobs = jobs = Jobs(self._clock, self._listeners)
        self._slots = slots = Slots(jobs)
        self._pushes = pushes = Pushes(jobs, slots)
        self._flows = flows = Flows(jobs, slots, pushes)
        self._workers = Workers(jobs, flows, slots)
        self._outcomes = Outcomes(jobs, pushes, flows)
        self._claims = Claims(jobs, slots, flows, self._workers, self._outcomes)
        self._staging = Staging(jobs, pushes, self._outcomes, self._values)
        self._operations = Operations(jobs, slots, flows)
        self._queues = Queues(jobs, flows)
        self._queries = Queries(jobs)

    # -- the store itself

    @property
    def clock_offset(self) -> float:
        """Seconds added to the store's clock."""
        return self._clock.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self._clock.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        """For how long a job waits from its second lost lease on."""
        return self._workers.lost_lease_delay

    @lost_lease_delay.setter
    def lost_lease_delay(self, delay: LostLeaseDelay) -> None:
        self._workers.lost_lease_delay = delay

    def setup(self, *, dry_run: bool = False) -> list[str]:
        """Do nothing: there is no schema."""
        return []

    def check(self) -> None:
        """Do nothing: the store can always be used."""

    def close(self) -> None:
        """Keep everything, as a later call opens the store anew."""

    def now(self) -> int:
        """Return the store's clock."""
        return self._clock.now()

    def transaction(self) -> AbstractContextManager[Any]:
        """Raise CannotJoin."""
        raise _cannot_join()

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        """Make the queue if need be, apply the changes, return its settings."""
        with self._lock:
            return self._queues.configure(queue, changes)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of those of these names that there are."""
        with self._lock:
            return self._queues.queues(names)

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""
        with self._lock:
            return self._queues.drop_queue(queue)

    # -- jobs in and out

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        """Store jobs, in order; those with a known id are stored already."""
        _refuse_to_join(tx)
        with self._lock:
            return self._pushes.push(jobs)

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs: running, under the claim's token, this attempt counted."""
        with self._lock:
            return self._claims.claim(claim)

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes of reservations; for each the state it led to, or None where the lease was lost."""
        _refuse_to_join(tx)
        with self._lock:
            return self._outcomes.settle(outcomes, repeat=repeat)

    # -- looking

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""
        with self._lock:
            return self._queries.fetch(ids)

    def select(self, query: Query) -> Page:
        """Return a page of the jobs that meet the conditions."""
        with self._lock:
            return self._queries.select(query)

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Cut a query into up to `parts` queries of about as many jobs each."""
        with self._lock:
            return self._queries.partition(query, parts)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        with self._lock:
            return self._queries.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        with self._lock:
            return self._queries.lane_depths(queue, lanes, at_most)

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs: live ones at once, a running one is asked to stop; return the states after it."""
        with self._lock:
            return self._operations.cancel(ids)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all attempts before them, same id."""
        with self._lock:
            return self._operations.retry(ids)

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended `older_than` seconds ago (None: the queue's ttl)."""
        with self._lock:
            return self._operations.purge(queue, older_than, limit)

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        with self._lock:
            return self._operations.discard(ends)

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store as they are there; False for each whose key a live job has."""
        with self._lock:
            return self._operations.adopt(rows)

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that another store has adopted, unless they run; return the ids of those deleted."""
        with self._lock:
            return self._operations.take(ids)

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Forget what is no longer kept: history, flows, stages, expired queues, dead workers that hold no job."""
        with self._lock:
            now = self._clock.now()
            self._operations.purge_all()
            self._flows.forget()
            self._staging.forget(now)
            self._queues.drop_unused(now)
            self._workers.forget(now)
            return []

    # -- semaphores

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        """Make a semaphore, or change its capacity."""
        with self._lock:
            return self._slots.set_semaphore(name, capacity, declared=declared)

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or those of these names that there are."""
        with self._lock:
            return self._slots.semaphores(names)

    # -- flows

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        """Open, extend, close and stop flows, in this order; tell for each whether it was done."""
        _refuse_to_join(tx)
        with self._lock:
            return self._flows.change_flows(changes)

    def flow_nodes(self, root: str) -> list[FlowNode]:
        """Return the nodes of a flow, in the order of their ids."""
        with self._lock:
            return self._flows.flow_nodes(root)

    def flow_ends(self, node: str, after: int = -1, limit: int = 1000) -> list[MemberEnd]:
        """Return how members of a node have ended, by their places, from behind the place `after` on."""
        with self._lock:
            return self._flows.flow_ends(node, after, limit)

    # -- staged jobs

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Lay jobs aside under a write and an attempt."""
        with self._lock:
            self._staging.stage(write, attempt, jobs)

    def publish(self, publication: Publication) -> bool:
        """Store staged jobs, write the value, commit what is reserved: all in one step, or nothing."""
        with self._lock:
            return self._staging.publish(publication)

    def unstage(self, write: str) -> None:
        """Forget what is staged under a write."""
        with self._lock:
            self._staging.unstage(write)

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive."""
        with self._lock:
            return self._workers.beat(workers)

    def leave(self, worker: str) -> None:
        """Forget a worker that has given back all its jobs."""
        with self._lock:
            self._workers.leave(worker)

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, also those that are late, with their number of running jobs."""
        with self._lock:
            return self._workers.workers()

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        """Give back jobs whose lease ran out or whose worker is dead; if there are none, count the slots anew."""
        with self._lock:
            return self._workers.recover(limit, as_of)

    # -- versioned values

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all of them, or those of these names that there are."""
        with self._lock:
            return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write, or with None delete, a value whose version is still the given one; 0: it is absent."""
        with self._lock:
            return self._values.compare_and_set(kind, name, text, version)

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> EventListener:
        """Start listening for work in these queues, and for ends of jobs."""
        return self._listeners.add(queues, finished, interchangeable=interchangeable)


def _refuse_to_join(tx: Any) -> None:
    if tx is not None:
        raise _cannot_join()


def _cannot_join() -> CannotJoin:
    return CannotJoin(
        "the memory store has no transactions to join; leave tx out, or use a store on the database "
        "that holds your transaction"
    )


def open_store(url: str) -> MemoryStore:
    """Return an empty store: `memory://`, or `memory://?clock=frozen` for a clock that only a test moves."""
    if url == _STEADY:
        return MemoryStore()
    if url == _FROZEN:
        return MemoryStore(FrozenClock())
    raise InvalidInput(f"{url!r} names no memory store; there are {_STEADY} and {_FROZEN}")


_STEADY, _FROZEN = "memory://", "memory://?clock=frozen"
