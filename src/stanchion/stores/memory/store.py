"""The memory store: its collaborators, and which of them each verb of the port is, under the single lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.memory.claim import Claims, Starts
from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Clock, FrozenClock, Jobs, SteadyClock
from stanchion.stores.memory.joining.journal import ReplayClock, Writes
from stanchion.stores.memory.joining.transactions import OwnTransaction, Transactions
from stanchion.stores.memory.operate import Operations
from stanchion.stores.memory.push import Pushes
from stanchion.stores.memory.query import Queries
from stanchion.stores.memory.queues import Queues
from stanchion.stores.memory.settle import Outcomes, Tables
from stanchion.stores.memory.slots import Slots
from stanchion.stores.memory.staging import Staging
from stanchion.stores.memory.values import Values
from stanchion.stores.memory.workers import Workers
from stanchion.stores.ports import Extensible, FollowsTransactions, ResultTables, as_port
from stanchion.stores.protocol import Port
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowChange
from stanchion.stores.records.jobs import JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay
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


@dataclass(frozen=True)
class Rehearsal:
    """What a store in memory needs in order to stand for a database in a test.

    `changed`: called after each call that may have changed something. `refusal`: the reason why the database could join
    no transaction, if so.
    """

    changed: Callable[[], None]
    refusal: str | None = None


class MemoryStore(Extensible):
    """Jobs in this process, lost at its end.

    Each verb delegates to a collaborator, with the lock held.
    """

    capabilities = CAPABILITIES

    def __init__(
        self, clock: Clock | None = None, listeners: Listeners | None = None, rehearsal: Rehearsal | None = None
    ) -> None:
        """`rehearsal`: the store stands for a database in a test."""
        self._lock = threading.Lock()
        listeners = Listeners() if listeners is None else listeners
        self._listeners = listeners
        self._clock: Clock = SteadyClock() if clock is None else clock
        if rehearsal is not None:
            self._clock = ReplayClock(self._clock)
        values = Values()
        self._jobs = jobs = Jobs(self._clock, listeners)
        self._slots = slots = Slots(jobs, values)
        pushes = Pushes(jobs, slots)
        self._flows = flows = Flows(jobs, slots, pushes)
        self._workers = workers = Workers(jobs, flows, slots)
        self._outcomes = outcomes = Outcomes(jobs, pushes, flows, tables := Tables())
        claims = Claims(jobs, slots, flows, workers, outcomes)
        self._starts = Starts(jobs, pushes, claims)
        self._staging = staging = Staging(jobs, pushes, outcomes, values)
        self._operations = operations = Operations(jobs, slots, flows)
        self._queues = queues = Queues(jobs, flows)
        queries = Queries(jobs)
        self._writes = Writes(self._starts, outcomes, flows)
        self._rehearsal = rehearsal
        self._transactions = None if rehearsal is None else self._follow(rehearsal)

        locked, read = self._locked, self._reading
        self.now, self.listen = self._clock.now, listeners.listen
        self.queues, self.drop_queue = read(queues.queues), locked(queues.drop_queue)
        self.claim, self.recover = locked(claims.claim), locked(workers.recover)
        self.stage, self.publish = locked(staging.stage), locked(staging.publish)
        self.unstage = locked(staging.unstage)
        self.beat, self.leave, self.workers = locked(workers.beat), locked(workers.leave), read(workers.workers)
        self.fetch, self.select = read(queries.fetch), read(queries.select)
        self.partition = read(queries.partition)
        self.stats, self.lane_depths = read(queries.stats), read(queries.lane_depths)
        self.cancel, self.retry = locked(operations.cancel), locked(operations.retry)
        self.delete, self.adopt = locked(operations.delete), locked(operations.adopt)
        self.semaphores = read(slots.semaphores)
        self.flow_nodes, self.flow_ends = read(flows.flow_nodes), read(flows.flow_ends)
        self.values = read(values.values)
        self.make_table, self.table_rows = locked(tables.make_table), read(tables.table_rows)
        self.compare_and_set = with_signs(locked(values.compare_and_set), listeners.announce)

    def _locked(self, verb: Callable[P, T]) -> Callable[P, T]:
        """Return the verb so that it is called with the lock held; like the whole store, it can be pickled."""
        return partial(self._with_lock, verb)

    def _reading(self, verb: Callable[P, T]) -> Callable[P, T]:
        """Return a verb that changes nothing, so that it is called with the lock held."""
        return partial(self._read, verb)

    def _read(self, verb: Callable[P, T], *given: P.args, **options: P.kwargs) -> T:
        with self._lock:
            return verb(*given, **options)

    def _with_lock(self, verb: Callable[P, T], *given: P.args, **options: P.kwargs) -> T:
        try:
            with self._lock:
                if self._transactions is not None:
                    self._transactions.changes += 1
                return verb(*given, **options)
        finally:
            if self._rehearsal is not None:
                self._rehearsal.changed()

    def _follow(self, rehearsal: Rehearsal) -> Transactions:
        self.capabilities = replace(CAPABILITIES, joins_transactions=True, feed="overlap")

        def shared() -> dict[int, object]:
            """Return what a copy of the store shares with it: the clock and the rows, but no listeners."""
            kept: list[object] = [self._clock, self._workers.lost_lease_delay]
            for queue in self._jobs.queues.values():
                kept += [*queue.live.values(), *queue.history.values()]
            return {id(self._listeners): Listeners()} | {id(one): one for one in kept}

        assert isinstance(self._clock, ReplayClock)  # noqa: S101 - made by __init__
        return Transactions(self._writes, self._lock, self._clock, shared, rehearsal.changed, rehearsal.refusal)

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
        """Stop following transactions; a later call finds all data."""
        if self._transactions is not None:
            self._transactions.close()

    def transaction(self) -> AbstractContextManager[OwnTransaction]:
        """Open a transaction, to be passed as `tx`. Raises CannotJoin unless the store stands for a database."""
        return self._joining().block()

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Delete everything past retention: history, flows, stages, expired queues, dead workers without jobs."""
        self._with_lock(self._maintain)
        return []

    def _maintain(self) -> None:
        now = self._clock.now()
        self._operations.keep_up()
        self._flows.forget()
        self._staging.forget(now)
        self._queues.drop_unused(now)
        self._workers.forget(now)

    # -- the verbs with a transaction of the caller, which only settings ignore

    def configure(self, queue: str, changes: Mapping[str, Any], tx: object = None) -> QueueSettings:
        return self._with_lock(self._queues.configure, queue, changes)

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: object = None) -> bool:
        return self._with_lock(self._slots.set_semaphore, name, capacity, declared=declared)

    def push(
        self, jobs: Sequence[NewJob], tx: object = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        new = list(jobs)
        return self._write(tx, lambda writes: writes.starts.push(new, claim))

    def settle(self, outcomes: Sequence[Outcome], tx: object = None, *, repeat: bool = False) -> list[JobState | None]:
        ends = list(outcomes)
        return self._write(tx, lambda writes: writes.outcomes.settle(ends, repeat=repeat))

    def change_flows(self, changes: Sequence[FlowChange], tx: object = None) -> list[bool]:
        made = list(changes)
        return self._write(tx, lambda writes: writes.flows.change_flows(made))

    def extension(self, port: type[Port]) -> Port | None:
        if port is FollowsTransactions and self._transactions is not None:
            return as_port(self, port)
        return as_port(self, port) if port is ResultTables else super().extension(port)

    @property
    def uncommitted(self) -> int:
        """The number of calls that wait for the commit of the caller's transactions."""
        return 0 if self._transactions is None else self._transactions.uncommitted

    def _write(self, tx: object, call: Callable[[Writes], T]) -> T:
        return self._with_lock(call, self._writes) if tx is None else self._joining().call(tx, call)

    def _joining(self) -> Transactions:
        if self._transactions is None:
            raise CannotJoin(
                "the memory store has no transactions to join; leave tx out, or use a store on the database "
                "that holds your transaction"
            )
        return self._transactions


def open_store(url: str) -> MemoryStore:
    """Return an empty store: `memory://`, or `memory://?clock=frozen` for a clock that only a test moves."""
    if url == _STEADY:
        return MemoryStore()
    if url == _FROZEN:
        return MemoryStore(FrozenClock())
    raise InvalidInput(f"{url!r} is not the URL of a memory store; use {_STEADY} or {_FROZEN}")


_STEADY, _FROZEN = "memory://", "memory://?clock=frozen"
