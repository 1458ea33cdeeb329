"""Changes that claims and leases make to the row of a job."""

from __future__ import annotations

from typing import Final, TypeGuard

from stanchion.stores.fields.jobs import Step, cleared
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState, Lease
from stanchion.stores.records.outcomes import Progress, Renewal
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.rules.capacity.slots import HOLDS_NOTHING, Verdict, is_granted, promised, rank_of, waits_at
from stanchion.stores.rules.lifecycle.jobs import state_of, stored_state_of
from stanchion.stores.rules.lifecycle.past_waits import deferred, wait_over

_NO_HOLDER: Final = {name: none for name, none in cleared(Step.RELEASED).items() if name not in HOLDS_NOTHING}
_NO_WAIT: Final = {**waits_at(None), "waits_since": None}


def in_claim_order(rows: list[JobRow], claim: Claim | None = None) -> list[JobRow]:
    """Sort claimed jobs into the order of delivery: the claim's order if it names jobs."""
    if len(rows) > 1:
        rows.sort(key=lambda row: (-row.rank, row.run_at, row.id))
        if claim is not None and claim.ids:
            places = {job_id: place for place, job_id in enumerate(claim.workers)}
            rows.sort(key=lambda row: places.get(row.id, len(places)))
    return rows


def claimed(row: JobRow, claim: Claim, lease: float, now: int) -> JobRow:
    """Return the row as reserved; the attempt counts from now on."""
    return row._replace(
        state=JobState.RUNNING.value,
        attempts=row.attempts + 1,
        token=claim.token,
        worker=claim.held_by,
        delivery=claim.delivery,
        lease_until=None if claim.worker else now + int(lease * SECOND),
        started_at=now,
        progress=None,
    )


def parked_or_deferred(row: JobRow, verdict: Verdict, token: str, now: int) -> JobRow:
    """Return a queued job that may not run yet: parked at a slot, or deferred by its rate.

    `token`: the hold token for the slots that the job holds or waits for, unless it has hold tokens already.
    """
    slot = verdict.slot
    keeps_order_key = row.order_key is not None and (verdict.held > 0 or slot is not None)
    parked = row._replace(
        slots_held=verdict.held,
        order_hold=(row.order_hold or token) if keeps_order_key else None,
        slots_hold=(row.slots_hold or token) if slot is not None and slot.kind == SEMAPHORE else None,
        rank=row.priority,
    )
    if verdict.run_at is not None:
        return promised(deferred(parked, verdict.run_at, now), verdict.run_at)
    return parked._replace(state=JobState.WAITING.value, **waits_at(slot), waits_since=now, promised=0)


def undelivered(row: JobRow) -> JobRow:
    """Return a claimed job as it was before its claim, because it is not delivered."""
    return row._replace(state=QUEUED, attempts=row.attempts - 1, token=None, **_NO_HOLDER)


def put_back(row: JobRow) -> JobRow:
    """Return a claimed job as it was before its claim, with its rank in the queue."""
    return undelivered(row)._replace(rank=rank_of(row.priority, granted=is_granted(row)))


def granted(row: JobRow, now: int) -> JobRow:
    """Give a waiting job the slot that it waits for; the job continues from there with its next claim."""
    return wait_over(row, now)._replace(
        state=QUEUED,
        rank=rank_of(row.priority, granted=row.waits_kind == SEMAPHORE),
        slots_held=row.slots_held + 1,
        **_NO_WAIT,
    )


def let_in(row: JobRow, now: int) -> JobRow:
    """Let a job continue that waited for a node of its flow."""
    free = wait_over(row, now)
    return free._replace(state=QUEUED, run_at=max(row.run_at, now), **_NO_WAIT)


def holds(row: JobRow | None, lease: Lease, now: int) -> TypeGuard[JobRow]:
    """Return True if this is the lease in force: of the queue of the job, not replaced, and not run out."""
    if row is None or row.state != JobState.RUNNING or row.token != lease.token or row.queue != lease.queue:
        return False
    return row.lease_until is None or row.lease_until > now


def left_in(row: JobRow | None, lease: Lease, now: int) -> JobState | None:
    """Return the state in which this lease left the job, in any queue, if it was the last lease and is over."""
    if row is None or row.token != lease.token or row.state == JobState.RUNNING:
        return None
    # A dead letter with 0 attempts was just moved. With more, it was claimed from its new queue and returned.
    return state_of(row, now) if row.attempts == 0 else stored_state_of(row, now)


def renewed(row: JobRow, renewal: Renewal, now: int) -> JobRow:
    """Renew a lease, or record progress. A worker's job has no lease: the worker's heartbeat keeps it."""
    if isinstance(renewal, Progress):
        return row._replace(progress=renewal.value)
    return row if row.lease_until is None else row._replace(lease_until=now + int(renewal.seconds * SECOND))
