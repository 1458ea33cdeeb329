"""Gates: what a job waits for, and may have to hold while it runs.

    order gate   o5:queue:key   one job of the key at a time, from its first claim until it is final or moves
    semaphore    s:name         up to its capacity, while they run
    node         f:id           open once that part of a flow is done

A job takes its gates in one order for all, the order gate and then its semaphores by name, so that no two wait for
each other. How many it holds says which they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.rules.limits import Rate, limits_in
from stanchion.stores.rules.rate_limit import Bucket, Promise

HOLDER_BOOST = 1000
"""Added to the priority of a queued job that holds a semaphore: it goes before those that hold none."""


class Asking(NamedTuple):
    """A job that asks its rate for a start."""

    rate: Rate
    promise: Promise | None = None


def order_gate(queue: str, key: str) -> str:
    """Return the gate of an order key; the length keeps apart names that read the same together."""
    return f"o{len(queue)}:{queue}:{key}"


def order_of(gate: str) -> tuple[str, str]:
    """Return the queue and the order key whose gate this is."""
    length, _, names = gate[1:].partition(":")
    return names[: int(length)], names[int(length) + 1 :]


def semaphore_gate(name: str) -> str:
    """Return the gate of a semaphore."""
    return f"s:{name}"


def semaphore_of(gate: str | None) -> str | None:
    """Return the semaphore whose gate this is."""
    return gate[2:] if gate is not None and gate.startswith("s:") else None


def node_gate(node: str) -> str:
    """Return the gate that opens when a node of a flow is done."""
    return f"f:{node}"


def is_node_gate(gate: str | None) -> bool:
    """Tell whether this is the gate of a part of a flow."""
    return gate is not None and gate.startswith("f:")


def gates_of(row: JobRow | NewJob) -> tuple[str, ...]:
    """Return the gates that a job must hold to run, in the order in which it takes them."""
    order = () if row.order_key is None else (order_gate(row.queue, row.order_key),)
    return order + tuple(map(semaphore_gate, limits_in(row.limits).semaphores))


def gated(row: JobRow) -> bool:
    """Tell whether a claim must ask before the job may run."""
    return row.order_key is not None or row.limits is not None


def held_gates(row: JobRow | None) -> tuple[str, ...]:
    """Return the gates that a job holds."""
    return () if row is None or not row.held else gates_of(row)[: row.held]


def held_between(row: JobRow) -> int:
    """Return how many gates a job goes on holding between two attempts: that of its order key, once it has it."""
    return 1 if row.held and row.order_key is not None else 0


def promise_of(row: JobRow) -> Promise | None:
    """Return the time that its rate has promised to a job; None if there is none, or it was rescheduled since."""
    ahead = None if row.waits_since is None else row.run_at - row.waits_since
    return Promise(row.run_at, again=ahead == 1) if ahead in (0, 1) else None


def promised(row: JobRow, run_at: int) -> JobRow:
    """Return a job that its rate defers until then."""
    return row._replace(run_at=run_at, waits_since=run_at - (promise_of(row) is not None))


class Permits(NamedTuple):
    """Under what a job takes its gates: that of its order key, kept between attempts, and its semaphores."""

    order: str | None
    semaphores: str | None

    @property
    def text(self) -> str | None:
        """Return the permit as it is stored with a job that has an order key."""
        return f"{self.order}/{self.semaphores}" if self.semaphores else self.order


def permits_of(row: JobRow) -> Permits:
    """Return the permits of a job: each the token of the reservation that came first with it, and so never used again.

    That of the order key is good until the job is final or moves, that of the semaphores until they are freed.
    """
    token = row.token if row.state == JobState.RUNNING else None
    if row.order_key is None:
        return Permits(None, row.permit or token)
    order, _, semaphores = (row.permit or "").partition("/")
    return Permits(order or token, semaphores or token)


def freed(before: JobRow, after: JobRow | None) -> list[str]:
    """Return the gates that a step has set free, and those at which it may be another's turn.

    The order gate also where the job did not hold it: as the first of its key it stood before all others.
    """
    kept = held_gates(after)
    free = [gate for gate in held_gates(before) if gate not in kept]
    if before.order_key is not None and before.finished_at is None:
        gate = order_gate(before.queue, before.order_key)
        gone = after is None or after.finished_at is not None or after.queue != before.queue
        if gone and gate not in free:
            free.append(gate)
    return free


@dataclass
class Slots:
    """What there is to be had at some gates: `free` slots, whose turn it is by order, and the buckets of rates."""

    free: dict[str, int]
    turns: Mapping[str, str]
    """The first live job of each order gate."""
    buckets: dict[str, Bucket]
    taken: Counter[str] = field(default_factory=Counter)

    def take(self, gate: str, job_id: str) -> bool:
        """Take a slot, if there is one and it is this job's turn."""
        if self.turns.get(gate, job_id) != job_id or self.free.get(gate, 1) < 1:
            return False
        self.free[gate] = self.free.get(gate, 1) - 1
        self.taken[gate] += 1
        return True


class Verdict(NamedTuple):
    """What becomes of a job that was about to be claimed: it runs, or waits at a gate, or until a moment.

    `held`: the gates that it holds by then.
    """

    row: JobRow
    held: int
    gate: str | None = None
    run_at: int | None = None

    @property
    def admitted(self) -> bool:
        """True when the job may run."""
        return self.gate is None and self.run_at is None


def admit(rows: Iterable[JobRow], slots: Slots, now: int) -> list[Verdict]:
    """Let queued jobs take their gates, in this order, as far as there are slots."""
    return [_admit(row, slots, now) for row in rows]


def _admit(row: JobRow, slots: Slots, now: int) -> Verdict:
    gates, held, rate = gates_of(row), row.held, limits_in(row.limits).rate
    if rate is not None:
        bucket = slots.buckets[rate.name] = slots.buckets[rate.name].at(now)
        if not bucket.admits(promise_of(row)):
            slots.buckets[rate.name], due = bucket.promising(promise_of(row))
            return Verdict(row, held_between(row), run_at=due)
    while held < len(gates):
        if not slots.take(gates[held], row.id):
            return Verdict(row, held, gate=gates[held])
        held += 1
    if rate is not None:
        slots.buckets[rate.name] = slots.buckets[rate.name].spent(1)
    return Verdict(row, held)


def wanted_gates(rows: Sequence[JobRow]) -> list[str]:
    """Return the gates that these jobs have still to take, each once, in one order for all."""
    return sorted({gate for row in rows for gate in gates_of(row)[row.held :]})


def wanted_rates(rows: Sequence[JobRow]) -> dict[str, Rate]:
    """Return the rates that these jobs are bound by."""
    return {rate.name: rate for row in rows if (rate := limits_in(row.limits).rate) is not None}
