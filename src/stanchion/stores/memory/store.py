"""The memory store: its collaborators, and which of them each verb of the port is, under the single lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

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
from stanchion.stores.memory.starts import Starts
from stanchion.stores.memory.values import Values
from stanchion.stores.memory.workers import Workers
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.lost_leases import LostLeaseDelay
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS
from stanchion.stores.wakeup.listeners import Listeners
from stanchion.stores.wakeup.values import with_signs

P = ParamSpec("P")
T = TypeVar("T")

CAPABILITIES = Capabilities(
    name="memory",
    joins_transactions=False,
    push_wakeup=True,
    wakeup="in the process",
    atomic_batches=True,
    atomic_pushes=True,
    durable="until the process ends",
    processes=False,
    feed="exact",
    claims_by_id=True,
)


class MemoryStore:
    """Jobs in this process, lost at its end.

    Each verb delegates to a collaborator, with the lock held.
    """

    capabilities = CAPABILITIES

    def __init__(self, clock: Clock | None = None, listeners: Listeners | None = None) -> None:
        self._lock = threading.Lock()
        listeners = Listeners() if listeners is None else listeners
        self._clock = SteadyClock() if clock is None else clock
        values = Values()
        jobs = Jobs(self._clock, listeners)
        self._slots = slots = Slots(jobs, values)
        pushes = Pushes(jobs, slots)
        self._flows = flows = Flows(jobs, slots, pushes)
        self._workers = workers = Workers(jobs, flows, slots)
        self._outcomes = outcomes = Outcomes(jobs, pushes, flows)
        claims = Claims(jobs, slots, flows, workers, outcomes)
        self._starts = Starts(jobs, pushes, claims)
        self._staging = staging = Staging(jobs, pushes, outcomes, values)
        self._operations = operations = Operations(jobs, slots, flows)
        self._queues = queues = Queues(jobs, flows)
        queries = Queries(jobs)

        locked = self._locked
        self.now, self.listen = self._clock.now, listeners.listen
        self.queues, self.drop_queue = locked(queues.queues), locked(queues.drop_queue)
        self.claim, self.recover = locked(claims.claim), locked(workers.recover)
        self.stage, self.publish = locked(staging.stage), locked(staging.publish)
        self.unstage = locked(staging.unstage)
        self.beat, self.leave, self.workers = locked(workers.beat), locked(workers.leave), locked(workers.workers)
        self.fetch, self.select = locked(queries.fetch), locked(queries.select)
        self.partition = locked(queries.partition)
        self.stats, self.lane_depths = locked(queries.stats), locked(queries.lane_depths)
        self.cancel, self.retry = locked(operations.cancel), locked(operations.retry)
        self.delete, self.adopt = locked(operations.delete), locked(operations.adopt)
        self.semaphores = locked(slots.semaphores)
        self.flow_nodes, self.flow_ends = locked(flows.flow_nodes), locked(flows.flow_ends)
        self.values = locked(values.values)
        self.compare_and_set = with_signs(locked(values.compare_and_set), listeners.announce)

    def _locked(self, verb: Callable[P, T]) -> Callable[P, T]:
        """Return the verb so that it is called with the lock held; like the whole store, it can be pickled."""
        return partial(self._with_lock, verb)

    def _with_lock(self, verb: Callable[P, T], *given: P.args, **options: P.kwargs) -> T:
        with self._lock:
            return verb(*given, **options)

    @property
    def clock_offset(self) -> float:
        """Seconds added to the store's clock."""
        return self._clock.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self._clock.clock_offset = seconds

    @property
    def lost_lease_delay(self) -> LostLeaseDelay:
        """The wait of a job from its second lost lease on."""
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
        """Do nothing: a later call finds all data."""

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Delete everything past retention: history, flows, stages, expired queues, dead workers without jobs."""
        with self._lock:
            now = self._clock.now()
            self._operations.keep_up()
            self._flows.forget()
            self._staging.forget(now)
            self._queues.drop_unused(now)
            self._workers.forget(now)
            return []

    # -- the verbs with a transaction of the caller, which only settings ignore

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        with self._lock:
            return self._queues.configure(queue, changes)

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        with self._lock:
            return self._slots.set_semaphore(name, capacity, declared=declared)

    def push(
        self, jobs: Sequence[NewJob], tx: Any = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        _refuse(tx)
        with self._lock:
            return self._starts.push(jobs, claim)

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        _refuse(tx)
        with self._lock:
            return self._outcomes.settle(outcomes, repeat=repeat)

    def change_flows(self, changes: Sequence[FlowChange], tx: Any = None) -> list[bool]:
        _refuse(tx)
        with self._lock:
            return self._flows.change_flows(changes)


def _refuse(tx: Any) -> None:
    if tx is not None:
        raise CannotJoin(
            "the memory store has no transactions to join; leave tx out, or use a store on the database "
            "that holds your transaction"
        )


def open_store(url: str) -> MemoryStore:
    """Return an empty store: `memory://`, or `memory://?clock=frozen` for a clock that only a test moves.

    `memory://?clock=1935388800000000` is such a clock that begins at this time, in microseconds since 1970.
    """
    if url == _STEADY:
        return MemoryStore()
    if url == _FROZEN:
        return MemoryStore(FrozenClock())
    if (at := url.removeprefix(_CLOCK)) != url and at.isdecimal():
        return MemoryStore(FrozenClock(int(at)))
    raise InvalidInput(f"{url!r} is not the URL of a memory store; use {_STEADY} or {_FROZEN}")


_STEADY, _CLOCK = "memory://", "memory://?clock="
_FROZEN = f"{_CLOCK}frozen"
