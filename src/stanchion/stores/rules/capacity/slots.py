"""Slots: capacities that a job waits for, and must hold to run.

    order        one job of an order key at a time, from its first claim until it is final or moves
    semaphore    as many jobs as its capacity, while they run
    node         open once that node of a flow is done; a dependency, never held
    rate         the starts of a keyed rate; spent, never held

All jobs take their slots in the same order, the order key and then semaphores by name, so that they never deadlock. The
number of slots held therefore identifies them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple

from stanchion.stores.fields.jobs import WAITS, Step, cleared
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Ties
from stanchion.stores.records.slots import NODE, ORDER, RATE, SEMAPHORE, Slot
from stanchion.stores.rules.capacity.limits import Rate, limits_in
from stanchion.stores.rules.capacity.rate_limit import Bucket, Promise

HOLDER_BOOST = 1000
"""Added to the rank of a queued job that was granted a semaphore, so that it precedes jobs that hold none."""
LEAST_GRANTED = HOLDER_BOOST // 2
"""A bound for searches in indexes: the rank of a job that was granted a semaphore is above it, any other below."""


def rank_of(priority: int, *, granted: bool) -> int:
    """Return the rank of a queued job."""
    return priority + HOLDER_BOOST if granted else priority


def priority_of(rank: int) -> int:
    """Return the priority of a queued job by its rank."""
    return rank - HOLDER_BOOST if rank > LEAST_GRANTED else rank


HOLDS_NOTHING: Final = cleared(Step.FREED)
"""The fields of a job that holds no slot, and waits for none."""


class Asking(NamedTuple):
    """A job's request for a start of its rate."""

    rate: Rate
    promise: Promise | None = None


def order_slot(queue: str, key: str) -> Slot:
    """Return the slot of an order key."""
    return Slot(ORDER, queue, key)


def semaphore_slot(name: str) -> Slot:
    """Return the slot of a semaphore."""
    return Slot(SEMAPHORE, "", name)


def node_slot(node: str) -> Slot:
    """Return the slot that opens when a node of a flow is done."""
    return Slot(NODE, "", node)


def rate_slot(name: str) -> Slot:
    """Return the slot of a keyed rate."""
    return Slot(RATE, "", name)


def waits_at(slot: Slot | None) -> dict[str, Any]:
    """Return the fields of a job that waits for this slot; None: for none."""
    return dict(zip(WAITS, slot or (None, None, None), strict=True))


def parks_at(slot: Slot, token: str, now: int) -> dict[str, object]:
    """Return the fields of a job that waits for this slot from now on, and holds none; `token`: its hold token."""
    hold = "order_hold" if slot.kind == ORDER else "slots_hold"
    return {**HOLDS_NOTHING, **waits_at(slot), "waits_since": now, hold: token}


def slots_of(row: JobRow | NewJob) -> tuple[Slot, ...]:
    """Return the slots that a job must hold to run, in the order of taking them."""
    order = () if row.order_key is None else (order_slot(row.queue, row.order_key),)
    return order + tuple(map(semaphore_slot, limits_in(row.limits).semaphores))


slot_needs = attrgetter("order_key", "limits")
"""Returns the slots that a job needs; it checks a batch of jobs without a Python call per job."""
NO_SLOTS = (None, None)
"""The needs of a job that uses no slots."""


def uses_slots(row: JobRow | NewJob) -> bool:
    """Return True if a job uses slots or a rate, so that a claim must check them before it runs."""
    return bool(slot_needs(row) != NO_SLOTS)


_NO_TIES = Ties.NONE
MAYBE_UNTIED = frozenset({None, Ties.NONE})
"""The ties of commits that may affect no other job; None: unknown."""


def ties_of(row: JobRow) -> Ties | None:
    """Return which other jobs the end of a reserved job affects; None of a chunk: not all routes count its items."""
    if row.order_key is not None or row.flow_node is not None:
        return Ties.OTHERS
    if row.limits is not None:
        return Ties.SLOTS
    return _NO_TIES if row.items is None else None


def held_slots(row: JobRow | None) -> tuple[Slot, ...]:
    """Return the slots that a job holds."""
    return () if row is None or not row.slots_held else slots_of(row)[: row.slots_held]


def is_granted(row: JobRow) -> bool:
    """Return True if a queued job was granted a semaphore; it keeps none between two attempts."""
    return row.slots_hold is not None


def held_between(row: JobRow) -> int:
    """Return the number of slots that a job keeps between two attempts: 1 if it holds its order key."""
    return 1 if row.slots_held and row.order_key is not None else 0


def promise_of(row: JobRow) -> Promise | None:
    """Return the time that its rate promised to a job; None if there is none. A new schedule ends a promise."""
    return Promise(row.run_at, again=row.promised > 1) if row.promised else None


def promised(row: JobRow, run_at: int) -> JobRow:
    """Return a job deferred by its rate until `run_at`."""
    return row._replace(run_at=run_at, promised=row.promised + 1)


class HoldTokens(NamedTuple):
    """The hold tokens of a job: for its order key, which it keeps between attempts, and for its semaphores."""

    order: str | None
    slots: str | None


def hold_tokens(row: JobRow) -> HoldTokens:
    """Return the hold tokens of a job. Each is the token of the reservation that took the slot first, and never reused.

    The order key's token is valid until the job is final or moves, the semaphores' token until they are freed.
    """
    token = row.token if row.state == JobState.RUNNING else None
    order = None if row.order_key is None else row.order_hold or token
    return HoldTokens(order, row.slots_hold or token)


def freed_slots(before: JobRow, after: JobRow | None) -> list[Slot]:
    """Return the slots that a step has freed, and the slots whose next waiter may have changed.

    The order key is included even if the job did not hold it: the job may have been the head of line.
    """
    kept = held_slots(after)
    free = [slot for slot in held_slots(before) if slot not in kept]
    if before.order_key is not None and before.finished_at is None:
        slot = order_slot(before.queue, before.order_key)
        gone = after is None or after.finished_at is not None or after.queue != before.queue
        if gone and slot not in free:
            free.append(slot)
    return free


@dataclass
class Slots:
    """The availability of some slots: `free` slots, the head of line of each order key, and the buckets of rates."""

    free: dict[Slot, int]
    heads: Mapping[Slot, str]
    """The head of line of each order key: its first live job."""
    buckets: dict[str, Bucket]
    taken: Counter[Slot] = field(default_factory=Counter)

    def take(self, slot: Slot, job_id: str) -> bool:
        """Take a slot if one is free, and this job is the head of line of an order key."""
        if self.heads.get(slot, job_id) != job_id or self.free.get(slot, 1) < 1:
            return False
        self.free[slot] = self.free.get(slot, 1) - 1
        self.taken[slot] += 1
        return True


class Verdict(NamedTuple):
    """The decision on a job to be claimed: it runs, waits for `slot`, or is deferred until `run_at`.

    `held`: the number of slots that it then holds. `full`: False if the slot is an order key that the head of its line
    may get from the same claim.
    """

    row: JobRow
    held: int
    slot: Slot | None = None
    run_at: int | None = None
    full: bool = True

    @property
    def admitted(self) -> bool:
        """True if the job may run."""
        return self.slot is None and self.run_at is None


def admit(rows: Iterable[JobRow], slots: Slots, now: int) -> list[Verdict]:
    """Let queued jobs take their slots, in this order, as far as there are free ones."""
    return [_admit(row, slots, now) for row in rows]


def _admit(row: JobRow, slots: Slots, now: int) -> Verdict:
    needed, held, rate = slots_of(row), row.slots_held, limits_in(row.limits).rate
    if rate is not None:
        bucket = slots.buckets[rate.name] = slots.buckets[rate.name].at(now)
        if not bucket.admits(promise_of(row)):
            slots.buckets[rate.name], due = bucket.promising(promise_of(row))
            return Verdict(row, held_between(row), run_at=due)
    while held < len(needed):
        if not slots.take(needed[held], row.id):
            return Verdict(row, held, slot=needed[held])
        held += 1
    if rate is not None:
        slots.buckets[rate.name] = slots.buckets[rate.name].spent(1)
    return Verdict(row, held)


def is_deferred(row: JobRow, buckets: Mapping[str, Bucket], now: int) -> bool:
    """Return whether the rate of a job does not let it start now."""
    rate = limits_in(row.limits).rate
    return rate is not None and not buckets[rate.name].at(now).admits(promise_of(row))


def wanted_slots(rows: Sequence[JobRow]) -> list[Slot]:
    """Return the slots that these jobs still have to take, sorted, without duplicates."""
    return sorted({slot for row in rows for slot in slots_of(row)[row.slots_held :]})


def wanted_rates(rows: Sequence[JobRow]) -> dict[str, Rate]:
    """Return the rates of these jobs, by name."""
    return {rate.name: rate for row in rows if (rate := limits_in(row.limits).rate) is not None}
