"""What an outcome makes of a reserved job."""

from __future__ import annotations

import json

from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Continue, Ending, Move, Outcome, Rollback
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.dead_letters import DEAD_FROM, headers_of_letter, unmarked, without_story
from stanchion.stores.rules.error_entries import not_put_off, put_off, with_error
from stanchion.stores.rules.jobs import _HOLDS_NOTHING, Transition, _restarted, _unreserved, created, own_priority
from stanchion.stores.rules.lost_leases import (
    ALONE_FROM,
    LostLeaseDelay,
    charged,
    default_delay,
    forgiven,
    is_alone,
    is_fatal,
)
from stanchion.stores.rules.slots import (
    is_node_gate,
)

LEASE_LOST = "LeaseLost: the lease ran out or the worker died"

NEVER_BEGAN = "LeaseLost: the worker died before it had said that this job began; the attempt is not counted"


def settled(row: JobRow, outcome: Ending, queue: QueueSettings, now: int) -> Transition:
    """Apply the outcome of a reservation that still holds."""
    match outcome:
        case Commit() | Continue() if opens_jobs(outcome) and row.cancel_requested:
            return Transition(_cancelled(row, "", now), "cancelled")
        case Commit(result=result, payload=payload):
            kept = row if payload is None else row._replace(payload=payload)
            return Transition(_finished(kept, JobState.DONE, now)._replace(result=result), counted_as(outcome))
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


def counted_as(commit: Commit) -> str:
    """Return what a commit counts as in its queue."""
    if commit.jobs:
        return "moved"
    return "popped" if commit.popped else "committed"


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


def _cancelled(row: JobRow, reason: str, now: int) -> JobRow:
    if reason:
        row = with_error(row, f"Cancel: {reason}", None, now)
    return _finished(row, JobState.CANCELLED, now)


def _failed(row: JobRow, error: str, traceback: str | None, now: int) -> JobRow:
    return with_error(row, error, traceback, now)._replace(failures=row.failures + 1)


def popped(row: JobRow) -> JobRow:
    """Return a reserved job as it is once it is committed, for whoever has popped it."""
    return _finished(row, JobState.DONE, row.started_at or 0)
