"""The life of a job as pure functions: a row and what happens to it, in; the next row, out.

    waiting ◄──a gate is shut── queued          queued ◄──granted── waiting

    queued ──claim──► running ──commit──► done
      ▲ ▲                │ │ ├─move──► queued in another queue
      │ └────rollback────┘ │ ├─abandon, or given back after a cancel──► cancelled
      └──lease lost────────┘ └─bury, or attempts used up──► dead, or queued in the dead-letter queue

Every store that computes a transition outside the database uses these, so that none has its own.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeGuard

from stanchion.stores.error_entries import not_put_off, put_off, with_error
from stanchion.stores.gates import (
    HOLDER_BOOST,
    Verdict,
    held_between,
    held_gates,
    is_node_gate,
    permits_of,
    promised,
    semaphore_of,
)
from stanchion.stores.letters import DEAD_FROM, headers_of_letter, is_letter, unmarked, without_story
from stanchion.stores.losses import ALONE_FROM, LostLeaseDelay, charged, default_delay, forgiven, is_alone, is_fatal
from stanchion.stores.records import (
    QUEUED,
    SECOND,
    UNLANED,
    Abandon,
    Bury,
    Claim,
    Commit,
    Continue,
    JobRow,
    JobState,
    Move,
    NewJob,
    Outcome,
    QueueSettings,
    Rollback,
)

LEASE_LOST = "LeaseLost: the lease ran out or the worker died"
NEVER_BEGAN = "LeaseLost: the worker died before it had said that this job began; the attempt is not counted"


class Transition(NamedTuple):
    """The row after a step, and the counter of the queue it happened in."""

    row: JobRow
    counted: str

    @property
    def final(self) -> bool:
        """True when the job goes to history."""
        return self.row.finished_at is not None

    def state(self, now: int) -> JobState:
        """Return what the attempt ended in: dead also where the job was moved to a dead-letter queue."""
        return JobState.DEAD if self.counted == "buried" else stored_state_of(self.row, now)


def created(job: NewJob, now: int) -> JobRow:
    """Return the row of a new job."""
    return JobRow(
        id=job.id,
        queue=job.queue,
        lane=job.lane,
        state=QUEUED if job.waits_for is None else JobState.WAITING.value,
        priority=job.priority,
        run_at=due_at(job, now),
        enqueued_at=now,
        payload=job.payload,
        task=job.task,
        headers=job.headers,
        tenant=job.tenant,
        key=job.key,
        order_key=job.order_key,
        limits=job.limits,
        flow=job.flow,
        origin=job.origin,
        max_attempts=job.max_attempts,
        timeout=job.timeout,
        waits_for=job.waits_for,
        waits_since=None if job.waits_for is None else now,
    )


def due_at(job: NewJob, now: int) -> int:
    """Return when a new job is due."""
    return job.run_at if job.run_at is not None else now + int((job.delay or 0) * SECOND)


def replaced(row: JobRow, job: NewJob, now: int) -> JobRow | None:
    """Give a queued job the work and the schedule of `job`, which has its key; None when it runs."""
    if row.state == JobState.RUNNING:
        return None
    if row.state == QUEUED or semaphore_of(row.waits_for) is not None:
        row = _unreserved(row)  # with another schedule it gets another place in the line, and keeps no slot until then
    return row._replace(
        task=job.task,
        payload=job.payload,
        headers=job.headers,
        priority=job.priority,
        run_at=due_at(job, now),
    )


def own_priority(priority: int) -> int:
    """Return the priority of a job without what it gains in the line by a semaphore that it holds."""
    return priority - HOLDER_BOOST if priority > HOLDER_BOOST // 2 else priority


def replay(row: JobRow, new_id: str) -> NewJob:
    """Return a copy of a finished job, due now, that names its origin."""
    return NewJob(
        id=new_id,
        queue=row.queue,
        payload=row.payload,
        task=row.task,
        priority=own_priority(row.priority),
        headers=row.headers,
        tenant=row.tenant,
        key=row.key,
        order_key=row.order_key,
        limits=row.limits,
        origin=row.id,
        max_attempts=row.max_attempts,
        timeout=row.timeout,
        lane=row.lane,
    )


def state_of(row: JobRow, now: int) -> JobState:
    """Return the state that the outside sees: that of a dead letter is dead."""
    return JobState.DEAD if is_letter(row) else stored_state_of(row, now)


def stored_state_of(row: JobRow, now: int) -> JobState:
    """Return the state of a job in its queue: a dead letter can be taken from there, as any other."""
    if row.state == QUEUED:
        return JobState.READY if row.run_at <= now else JobState.SCHEDULED
    return JobState(row.state)


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


def kept_back(row: JobRow, verdict: Verdict, permit: str, now: int) -> JobRow:
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


def extended(row: JobRow, seconds: float, now: int) -> JobRow:
    """Renew a lease. A job held by a worker has none: the worker's heartbeat holds it."""
    return row if row.lease_until is None else row._replace(lease_until=now + int(seconds * SECOND))


def settled(row: JobRow, outcome: Outcome, queue: QueueSettings, now: int) -> Transition:
    """Apply the outcome of a reservation that still holds."""
    match outcome:
        case Commit() | Continue() if opens_jobs(outcome) and row.cancel_requested:
            return Transition(_cancelled(row, "", now), "cancelled")
        case Commit(result=result, payload=payload):
            kept = row if payload is None else row._replace(payload=payload)
            counted = "moved" if outcome.jobs else "committed"
            return Transition(_finished(kept, JobState.DONE, now)._replace(result=result), counted)
        case Rollback():
            return _given_back(row, outcome, queue, now)
        case Move():
            moved = _restarted(row, now + int(outcome.delay * SECOND))
            payload = row.payload if outcome.payload is None else outcome.payload
            headers = unmarked(row.headers if outcome.headers is None else outcome.headers)
            return Transition(
                moved._replace(queue=outcome.queue, lane=outcome.lane, payload=payload, headers=headers, key=None),
                "moved",
            )
        case Continue(job=job):
            return Transition(_continued(row, job, now), "moved")
        case Bury(error=error, traceback=traceback):
            return _dead(_failed(row, error, traceback, now), queue, now)
        case Abandon(reason=reason):
            return Transition(_cancelled(row, reason, now), "cancelled")


def opens_jobs(outcome: Outcome) -> bool:
    """Tell whether jobs are stored with an outcome; one that was asked to stop is cancelled instead."""
    return isinstance(outcome, Continue) or (isinstance(outcome, Commit) and bool(outcome.jobs))


def fanned_out(commit: Commit) -> list[NewJob]:
    """Return the jobs that are stored with a commit.

    A key that is taken never refuses one, as that would take the job's own outcome, and those of its batch, with it.
    """
    return [job._replace(on_duplicate="return") if job.on_duplicate == "raise" else job for job in commit.jobs]


def lease_lost(
    row: JobRow, queue: QueueSettings, now: int, *, begun: bool = True, delay: LostLeaseDelay = default_delay
) -> Transition:
    """Take a job back from a holder that is gone; one that is not known to have begun gets its attempt back.

    It is due at once, or, when it is to run alone from now on, after the delay.
    """
    if row.cancel_requested:
        return Transition(_cancelled(row, "", now), "cancelled")
    losses = charged(row, begun=begun)
    failed = with_error(row, LEASE_LOST if begun else NEVER_BEGAN, None, now, **losses.noted)
    if is_fatal(row, losses, begun=begun):
        return _dead(failed, queue, now)
    back = _unreserved(failed if begun else failed._replace(attempts=row.attempts - 1))
    if is_alone(back):
        back = back._replace(run_at=now + int(max(0.0, delay(row, losses.charged - ALONE_FROM + 1)) * SECOND))
    return Transition(back, "expired")


def cancel(row: JobRow, now: int) -> Transition | None:
    """Cancel a live job; None when it runs and can only be asked to."""
    if row.state == JobState.RUNNING:
        return None
    return Transition(_cancelled(row, "", now), "cancelled")


def retried(row: JobRow, now: int) -> JobRow:
    """Re-drive a dead, cancelled or scheduled job: ready now, with all its attempts before it.

    A dead letter goes back to the queue it came from, without the headers that made it one. Any other
    ready job keeps its place in the line.
    """
    headers = json.loads(row.headers) if row.headers else {}
    home = headers.get(DEAD_FROM)
    in_line = row.state == JobState.WAITING or (row.state == QUEUED and row.run_at <= now)
    if in_line and (home is None or is_node_gate(row.waits_for)):
        return row
    again = _restarted(row, now)._replace(errors=forgiven(row).errors)
    if home is None:
        return again._replace(held=row.held, permit=row.permit)
    return again._replace(queue=home, lane=UNLANED, headers=without_story(headers))


def uprooted(row: JobRow) -> JobRow:
    """Return a job, no live one of a flow, as another store is to get it: holding nothing, and in no line."""
    held_nothing = row._replace(priority=own_priority(row.priority), **_HOLDS_NOTHING)
    return held_nothing if row.finished_at is not None else held_nothing._replace(state=QUEUED)


def popped(row: JobRow, now: int) -> JobRow:
    """Finish a job as it is handed out."""
    return _finished(row._replace(attempts=row.attempts + 1, started_at=now), JobState.DONE, now)


def _given_back(row: JobRow, outcome: Rollback, queue: QueueSettings, now: int) -> Transition:
    if outcome.refund:
        row = row._replace(attempts=row.attempts - 1)
    if outcome.error is not None:
        failed = not outcome.refund
        row = _failed(row, outcome.error, outcome.traceback, now) if failed else put_off(row, outcome.error, now)
    elif outcome.delay or not outcome.refund:
        row = forgiven(not_put_off(row))  # what goes back at once, unharmed, may not have begun
    if row.cancel_requested:
        return Transition(_cancelled(row, "", now), "cancelled")
    if row.attempts >= row.max_attempts:
        told = row if outcome.error is not None else with_error(row, _used_up(row), None, now)
        return _dead(told, queue, now)
    # What goes back unharmed keeps its place in the line.
    run_at = row.run_at if outcome.refund and not outcome.delay else now + int(outcome.delay * SECOND)
    return Transition(_unreserved(row)._replace(run_at=run_at), "rolled_back")


def _used_up(row: JobRow) -> str:
    """Return why a job is dead whose last rollback names no error."""
    return f"AttemptsUsedUp: rolled back without an error in the last of its {row.max_attempts} attempts"


def _dead(row: JobRow, queue: QueueSettings, now: int) -> Transition:
    if queue.dead_letter is None or queue.dead_letter == row.queue:
        return Transition(_finished(row, JobState.DEAD, now), "buried")
    letter = _restarted(row, now)._replace(
        queue=queue.dead_letter,
        lane=UNLANED,
        key=None,
        headers=headers_of_letter(row, now),
        errors=forgiven(row).errors,
    )
    return Transition(letter, "buried")


def _continued(row: JobRow, job: NewJob, now: int) -> JobRow:
    """Return the job as another call, in its place in a flow, with its key as long as it stays in its queue."""
    return created(job, now)._replace(
        id=row.id,
        enqueued_at=row.enqueued_at,
        key=row.key if job.queue == row.queue else None,
        origin=row.origin,
        token=row.token,
        headers=unmarked(job.headers),
    )


def _finished(row: JobRow, state: JobState, now: int) -> JobRow:
    return row._replace(
        state=state.value,
        finished_at=now,
        lease_until=None,
        cancel_requested=False,
        priority=own_priority(row.priority),
        **_HOLDS_NOTHING,
    )


_HOLDS_NOTHING: dict[str, Any] = {"held": 0, "permit": None, "waits_for": None, "waits_since": None}


def _cancelled(row: JobRow, reason: str, now: int) -> JobRow:
    if reason:
        row = with_error(row, f"Cancel: {reason}", None, now)
    return _finished(row, JobState.CANCELLED, now)


def _unreserved(row: JobRow) -> JobRow:
    # The last token stays: a settle that is repeated after a lost answer recognises its own work by it.
    return row._replace(
        state=QUEUED,
        worker=None,
        lease_until=None,
        progress=None,
        started_at=None,
        priority=own_priority(row.priority),
        **{**_HOLDS_NOTHING, "held": held_between(row), "permit": permits_of(row).order},
    )


def _restarted(row: JobRow, run_at: int) -> JobRow:
    return _unreserved(row)._replace(
        **_HOLDS_NOTHING,
        run_at=run_at,
        attempts=0,
        failures=0,
        errors=None,
        finished_at=None,
        result=None,
        cancel_requested=False,
    )


def _failed(row: JobRow, error: str, traceback: str | None, now: int) -> JobRow:
    return with_error(row, error, traceback, now)._replace(failures=row.failures + 1)
