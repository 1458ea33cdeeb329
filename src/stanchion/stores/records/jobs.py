"""Jobs: new and stored ones, their states and leases. Times are microseconds since 1970, by the clock of the store."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

from stanchion.core.values.framing import Content
from stanchion.stores.records.slots import Slot, slot_in


class Lease(NamedTuple):
    """What proves that a job is reserved: its queue, its id, and the fencing token of the claim."""

    queue: str
    id: str
    token: str


SECOND = 1_000_000
"""One second in the unit of every stored time."""

UNLANED = -1
"""Lane of jobs pushed while their queue had no lanes."""

QUEUED: Literal["queued"] = "queued"
"""Stored state of scheduled and ready jobs; comparing `run_at` with the store's clock distinguishes them."""


class JobState(StrEnum):
    """The state of a job; the first four are live, the others final."""

    SCHEDULED = "scheduled"
    READY = "ready"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """True for a job in history."""
        return self in _FINAL


_FINAL = frozenset({JobState.DONE, JobState.DEAD, JobState.CANCELLED})


class NewJob(NamedTuple):
    """A job to store. Due at `run_at`, or `delay` seconds from the store's now, or now.

    A job with `waits_kind`, `waits_queue`, `waits_name`, a slot, is stored as waiting until that slot opens. The fields
    of its position in a flow: see `rules.flows.FlowPosition`. `trail`: of the job that it was split from. `attempts`,
    `errors` and `dead_from`, the queue where it died: of a part of a chunk whose items have failed. `enqueued_at`: of a
    part that keeps the place of its chunk among the jobs of its order key; None: the store's now.
    """

    id: str
    queue: str
    payload: Content
    task: str | None = None
    priority: int = 0
    run_at: int | None = None
    delay: float | None = None
    headers: str | None = None
    tenant: str | None = None
    key: str | None = None
    on_duplicate: str = "return"
    order_key: str | None = None
    limits: str | None = None
    flow_root: str | None = None
    flow_node: str | None = None
    flow_index: int | None = None
    flow_after: str | None = None
    origin: str | None = None
    max_attempts: int = 25
    timeout: float | None = None
    expires: float | None = None
    lane: int = UNLANED
    waits_kind: str | None = None
    waits_queue: str | None = None
    waits_name: str | None = None
    trail: str | None = None
    attempts: int = 0
    errors: str | None = None
    dead_from: str | None = None
    key_ttl: float | None = None
    """Seconds for which a finished job still holds the key against this one."""
    enqueued_at: int | None = None

    @property
    def waits_for(self) -> Slot | None:
        """The slot that the job waits for."""
        return slot_in(self.waits_kind, self.waits_queue, self.waits_name)


class Pushed(NamedTuple):
    """The result of pushing a NewJob. For a duplicate, `id` names the job that has the key.

    `token`: the job was stored as running, under this token; None: as queued, or by an earlier push.
    """

    id: str
    run_at: int
    enqueued_at: int
    duplicate: bool = False
    token: str | None = None


class JobRef(NamedTuple):
    """A job as it was read: finished at this time, or queued if None."""

    id: str
    finished_at: int | None = None


class JobRow(NamedTuple):
    """A whole job as stored, live or finished.

    `items`: the number of items of a chunk, 0 of one that was divided; None of a job that carries one. `rank`: sort key
    of claims, highest first: the priority, plus a boost for a queued job that was granted a semaphore.
    `slots_held`: the number of slots held, the order key first, then semaphores by name. `order_hold`, `slots_hold`:
    see `rules.capacity.slots.hold_tokens`. `waits_kind`, `waits_queue`, `waits_name`, `waits_since`: the slot where the
    job is parked, and since when. `promised`: how often its rate has promised it a start; the last promise is `run_at`.
    `delivery`: see `Claim`; of a running job. `lost_leases`, `lost_in_all`: lost leases in a row, see
    `rules.leases.lost_leases`. `dead_from`, `dead_at`, `dead_attempts`: of a dead letter, see
    `rules.lifecycle.dead_letters`. `arrival_payload`: the payload on arrival in the queue; None if unchanged since.
    `trail`: see `rules.lifecycle.trail`. `entry_payload`: the payload on entry to the first queue, if a move has
    changed it and it is kept. `past_waits`: see `rules.lifecycle.past_waits`; `kept_payloads`: see
    `rules.lifecycle.trail`; a claim does not read them.
    """

    id: str
    queue: str
    lane: int
    state: str
    priority: int
    rank: int
    run_at: int
    enqueued_at: int
    payload: Content
    items: int | None = None
    task: str | None = None
    headers: str | None = None
    tenant: str | None = None
    key: str | None = None
    order_key: str | None = None
    limits: str | None = None
    flow_root: str | None = None
    flow_node: str | None = None
    flow_index: int | None = None
    flow_after: str | None = None
    origin: str | None = None
    attempts: int = 0
    failures: int = 0
    max_attempts: int = 25
    timeout: float | None = None
    expires: float | None = None
    errors: str | None = None
    lost_leases: int = 0
    lost_in_all: int = 0
    dead_from: str | None = None
    dead_at: int | None = None
    dead_attempts: int | None = None
    progress: float | None = None
    token: str | None = None
    worker: str | None = None
    delivery: str | None = None
    lease_until: int | None = None
    started_at: int | None = None
    cancel_requested: bool = False
    slots_held: int = 0
    order_hold: str | None = None
    slots_hold: str | None = None
    waits_kind: str | None = None
    waits_queue: str | None = None
    waits_name: str | None = None
    waits_since: int | None = None
    promised: int = 0
    arrival_payload: Content | None = None
    trail: str | None = None
    entry_payload: Content | None = None
    past_waits: str | None = None
    kept_payloads: str | None = None
    finished_at: int | None = None
    result: Content | None = None

    @property
    def ref(self) -> JobRef:
        """The reference to the job as it is in this row."""
        return JobRef(self.id, self.finished_at)

    @property
    def lease(self) -> Lease:
        """The lease under which the job is reserved; without a token if it never was."""
        return Lease(self.queue, self.id, self.token or "")

    @property
    def waits_for(self) -> Slot | None:
        """The slot that the job waits for."""
        return slot_in(self.waits_kind, self.waits_queue, self.waits_name)


class Redriven(StrEnum):
    """The result of retrying a job."""

    READY = "ready"
    MISSING = "missing"
    DONE = "done"
    RUNNING = "running"
    KEY_TAKEN = "key taken"
