"""What a claim and a lease do to the row of a job."""

from __future__ import annotations

from typing import TypeGuard

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.records.outcomes import Progress, Renewal
from stanchion.stores.rules.jobs import own_priority, state_of, stored_state_of
from stanchion.stores.rules.slots import (
    HOLDER_BOOST,
    Verdict,
    held_gates,
    promised,
    semaphore_of,
)


def claimed(row: JobRow, claim: Claim, lease: float, now: int) -> JobRow:
    """Return the row as reserved: the attempt counts from here, whatever becomes of it."""
    return row._replace(
        state=JobState.RUNNING.value,
        priority=own_priority(row.priority),
        attempts=row.attempts + 1,
        token=claim.token,
        worker=claim.worker,
        lease_until=None if claim.worker else now + int(lease * SECOND),
        started_at=now,
        progress=None,
    )


def parked_or_deferred(row: JobRow, verdict: Verdict, permit: str, now: int) -> JobRow:
    """Return a queued job that may not run yet: parked at a gate, or postponed by its rate."""
    kept = row._replace(
        held=verdict.held,
        permit=(row.permit or permit) if verdict.held or verdict.gate is not None else None,
        priority=own_priority(row.priority),
    )
    if verdict.run_at is not None:
        return promised(kept, verdict.run_at)
    return kept._replace(state=JobState.WAITING.value, waits_for=verdict.gate, waits_since=now)


def undelivered(row: JobRow) -> JobRow:
    """Return a job as it was before its claim, which was not handed out after all."""
    return row._replace(
        state=QUEUED, attempts=row.attempts - 1, token=None, worker=None, lease_until=None, started_at=None
    )


def put_back(row: JobRow) -> JobRow:
    """Return a claimed job as it was before its claim, in its place in the line."""
    holds_a_slot = any(semaphore_of(gate) is not None for gate in held_gates(row))
    return undelivered(row)._replace(priority=own_priority(row.priority) + (HOLDER_BOOST if holds_a_slot else 0))


def granted(row: JobRow) -> JobRow:
    """Give a waiting job the slot that it waits for; it goes on from there with its next claim."""
    boost = HOLDER_BOOST if semaphore_of(row.waits_for) is not None else 0
    return row._replace(
        state=QUEUED, held=row.held + 1, priority=row.priority + boost, waits_for=None, waits_since=None
    )


def let_in(row: JobRow, now: int) -> JobRow:
    """Let a job go on that waited for a part of its flow."""
    return row._replace(state=QUEUED, run_at=max(row.run_at, now), waits_for=None, waits_since=None)


def holds(row: JobRow | None, token: str, now: int) -> TypeGuard[JobRow]:
    """Tell whether `token` is that of the reservation in force: not replaced, nor its lease run out."""
    if row is None or row.state != JobState.RUNNING or row.token != token:
        return False
    return row.lease_until is None or row.lease_until > now


def left_in(row: JobRow | None, token: str, now: int) -> JobState | None:
    """Return the state that the reservation `token` has left the job in, if it was the last one and is over."""
    if row is None or row.token != token or row.state == JobState.RUNNING:
        return None
    # A letter without an attempt has just been moved; with some, it was taken from its new queue and given back.
    return state_of(row, now) if row.attempts == 0 else stored_state_of(row, now)


def renewed(row: JobRow, renewal: Renewal, now: int) -> JobRow:
    """Renew a lease, or record progress. A job held by a worker has no lease: the worker's heartbeat holds it."""
    if isinstance(renewal, Progress):
        return row._replace(progress=renewal.value)
    return row if row.lease_until is None else row._replace(lease_until=now + int(renewal.seconds * SECOND))
