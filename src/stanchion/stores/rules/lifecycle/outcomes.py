"""Applies an outcome to a reserved job."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from stanchion.core.names.partition_names import logical_name
from stanchion.core.values.framing import Content, items_in
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import Step, cleared
from stanchion.stores.records.claims import POPPED
from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState, Lease, NewJob, Redriven
from stanchion.stores.records.outcomes import (
    Abandon,
    Bury,
    Commit,
    Continue,
    Ending,
    Extend,
    Move,
    Outcome,
    Pass,
    Passage,
    Progress,
    Rollback,
    TableRows,
    Tally,
)
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import NODE
from stanchion.stores.rules.capacity.slots import HOLDS_NOTHING, ties_of
from stanchion.stores.rules.expiry import EXPIRED, is_too_late
from stanchion.stores.rules.leases.lost_leases import (
    ALONE_FROM,
    LostLeaseDelay,
    charged,
    default_delay,
    forgiven,
    is_alone,
    is_fatal,
)
from stanchion.stores.rules.lifecycle.claims import undelivered
from stanchion.stores.rules.lifecycle.dead_letters import as_letter, revived
from stanchion.stores.rules.lifecycle.error_entries import not_put_off, put_off, waiting_until, with_error
from stanchion.stores.rules.lifecycle.jobs import (
    Transition,
    _restarted,
    _unreserved,
    arrival_payload,
    created,
    items_of,
    with_payload,
)
from stanchion.stores.rules.lifecycle.past_waits import wait_over
from stanchion.stores.rules.lifecycle.trail import Lasting, moved_job, moved_trail, passed_job, trail_to

LEASE_LOST = "LeaseLost: the lease ran out or the worker died"

NEVER_BEGAN = "LeaseLost: the worker died before it had said that this job began; the attempt is not counted"


_new = tuple.__new__
"""Makes a record in half the time of its constructor, which is a Python function; `commit_of` runs for each job."""


def commit_of(
    row: JobRow, result: Content | None = None, payload: Content | None = None, jobs: tuple[NewJob, ...] = ()
) -> Commit:
    """Return the commit of a reserved job."""
    lease = _new(Lease, (row.queue, row.id, row.token or ""))
    return _new(Commit, (lease, result, payload, jobs, ties_of(row), (), ()))


def ends_in(outcome: Outcome) -> str:
    """Return the queue in which an outcome ends a reservation; by its settings."""
    return outcome.passages[-1].queue if isinstance(outcome, Pass) else outcome.lease.queue


def settled(row: JobRow, outcome: Ending, queue: QueueSettings, now: int) -> Transition:
    """Apply the outcome of a reservation that is in force. `queue`: the settings of `ends_in`."""
    match outcome:
        case Commit() | Continue() if row.cancel_requested and opens_jobs(outcome):
            return Transition(_cancelled(row, "", now), "cancelled")
        case Commit(result=result, payload=payload):
            done = _finished(with_payload(row, payload), JobState.DONE, now)
            items = 0 if outcome.tallies and payload is None else done.items
            return Transition(
                done._replace(result=result, items=items), counted_as(outcome, row.delivery), outcome.tallies
            )
        case Rollback():
            return _given_back(row, outcome, queue, now)
        case Move():
            payload = row.payload if outcome.payload is None else outcome.payload
            gone = _moved(row, outcome, outcome.queue, payload, now)
            headers = row.headers if outcome.headers is None else outcome.headers
            there = revived(_restarted(gone, now + int(outcome.delay * SECOND)))
            order_key = row.order_key or outcome.order_key
            return Transition(
                there._replace(lane=outcome.lane, headers=headers, key=None, order_key=order_key), "moved"
            )
        case Continue(job=job):
            return Transition(_continued(row, job, now, outcome), "moved")
        case Pass():
            return _passed(row, outcome, queue, now)
        case Bury():
            return _dead(_failed(row, outcome, outcome.error, now), queue, now)
        case Abandon() if is_too_late(row):
            return lapsed(undelivered(row), now)
        case Abandon(reason=reason):
            return Transition(_cancelled(row, reason, now), "cancelled")


def counted_as(commit: Commit, delivery: str | None) -> str:
    """Return the queue counter that the commit of a job, delivered in this way, increments."""
    if commit.jobs or commit.rows:
        return "moved"
    return "popped" if delivery == POPPED else "committed"


def opens_jobs(outcome: Outcome) -> bool:
    """Return True if jobs or rows are stored with an outcome; a job that was asked to stop is cancelled instead."""
    return isinstance(outcome, Continue) or bool(jobs_with(outcome)) or bool(rows_with(outcome))


def jobs_with(outcome: Outcome) -> tuple[NewJob, ...]:
    """Return the jobs of a commit; none of other outcomes."""
    last = last_of(outcome)
    return last.jobs if isinstance(last, Commit) else ()


def rows_with(outcome: Outcome) -> tuple[TableRows, ...]:
    """Return the rows that a commit inserts into tables; none of other outcomes."""
    last = last_of(outcome)
    return last.rows if isinstance(last, Commit) else ()


def have_rows(outcomes: Iterable[Outcome]) -> bool:
    """Return whether any of these outcomes has rows for tables."""
    lasts = (one.then if isinstance(one, Pass) else one for one in outcomes)
    return any(last.rows for last in lasts if isinstance(last, Commit))


def refuse_rows(outcome: Outcome) -> None:
    """Raise InvalidInput for rows, at a store that has no tables for them."""
    for table, _ in rows_with(outcome):
        raise InvalidInput(f"this store has no tables, so nothing can be written to {table.name!r} with an outcome")


def last_of(outcome: Outcome) -> Outcome:
    """Return the outcome by which a job leaves the last queue of the attempt."""
    return outcome.then if isinstance(outcome, Pass) else outcome


def leaving_by(outcome: Pass, last: Outcome) -> Pass:
    """Return an outcome that passes the same queues and leaves the last one by another outcome, under its lease."""
    if isinstance(last, (Pass, Extend, Progress)):
        raise TypeError(f"a job leaves a queue that it has passed by no {type(last).__name__}")
    return outcome._replace(then=last._replace(lease=outcome.lease))


def queues_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the queues that an outcome takes its job to, in order."""
    match outcome:
        case Move(queue=queue):
            return (queue,)
        case Pass(passages=passages, then=then):
            return (*(passage.queue for passage in passages), *queues_of(then))
    return ()


def fanned_out(outcome: Outcome) -> list[NewJob]:
    """Return the jobs stored with a commit.

    A taken key never refuses one of these jobs: that would also fail the job's outcome and the rest of its batch.
    """
    return [job._replace(on_duplicate="return") if job.on_duplicate == "raise" else job for job in jobs_with(outcome)]


def lease_lost(
    row: JobRow, queue: QueueSettings, now: int, *, begun: bool = True, delay: LostLeaseDelay = default_delay
) -> Transition:
    """Take a job back from a holder that is gone; a job not known to have begun gets its attempt back.

    The job is due immediately, or after `delay` if it must run alone from now on.
    """
    if row.cancel_requested:
        return Transition(_cancelled(row, "", now), "cancelled")
    failed = charged(with_error(row, LEASE_LOST if begun else NEVER_BEGAN, None, now), begun=begun)
    if is_fatal(failed, begun=begun):
        return _dead(failed, queue, now)
    back = _unreserved(failed if begun else failed._replace(attempts=row.attempts - 1))
    if is_alone(back):
        back = waiting_until(back, now + int(max(0.0, delay(row, failed.lost_leases - ALONE_FROM + 1)) * SECOND))
    return Transition(back, "expired")


def lapsed(row: JobRow, now: int) -> Transition:
    """End a job that has expired before an attempt began."""
    return Transition(_cancelled(row, EXPIRED, now), "lapsed")


def cancel(row: JobRow, now: int) -> Transition | None:
    """Cancel a live job; None if it runs and can only be asked to stop."""
    if row.state == JobState.RUNNING:
        return None
    return Transition(_cancelled(row, "", now), "cancelled")


def redriven(row: JobRow | None, now: int) -> tuple[Redriven, JobRow | None]:
    """Return what becomes of a job that is to be made ready again, and its row after that, if it changes."""
    if row is None:
        return Redriven.MISSING, None
    if row.state == JobState.DONE:
        return Redriven.DONE, None
    if row.state == JobState.RUNNING:
        return Redriven.RUNNING, None
    again = retried(row, now)
    return Redriven.READY, None if again is row else again


def retried(row: JobRow, now: int) -> JobRow:
    """Re-drive a dead, cancelled or scheduled job: ready now, with all its attempts.

    A dead letter returns to the queue where it died. Any other ready job keeps its order in the queue.
    """
    home = row.dead_from
    is_queued = row.state == JobState.WAITING or (row.state == QUEUED and row.run_at <= now)
    if is_queued and (home is None or row.waits_kind == NODE):
        return row
    restarted = _restarted(wait_over(row, now), now)._replace(errors=row.errors)
    if home is None:
        return restarted._replace(slots_held=row.slots_held, order_hold=row.order_hold, slots_hold=row.slots_hold)
    return revived(restarted)._replace(queue=home, trail=trail_to(row, home, now), lane=UNLANED)


def _passed(row: JobRow, outcome: Pass, queue: QueueSettings, now: int) -> Transition:
    payload = row.payload if outcome.payload is None else outcome.payload
    there = passed_job(row, outcome.passages, now, payload, keep_entry=outcome.keep_entry)
    headers = row.headers if outcome.headers is None else outcome.headers
    reserved = there._replace(headers=headers, lane=UNLANED, attempts=1, **PASSED)
    last = settled(reserved, outcome.then, queue, now)
    steps = enumerate(steps_of(row.queue, outcome.passages))
    told = [Tally(name, event, items_of(reserved if n else row)) for n, (name, event) in steps]  # it leaves as it was
    return Transition(last.row, last.counted, (*told, *last.tallies(reserved)))


def steps_of(queue: str, passages: Iterable[Passage]) -> list[tuple[str, str]]:
    """Return what counts for a job that passes queues from this one on: pairs of a queue and an event."""
    queues = [passage.queue for passage in passages]
    moves = zip((queue, *queues), queues, strict=False)
    return [step for left, came in moves for step in ((left, "moved"), (came, "reserved"))]


PASSED = {
    name: default
    for name, default in cleared(Step.MOVED).items()
    if name not in {*cleared(Step.RELEASED), "attempts", "cancel_requested", "arrival_payload"}
}
"""Fields that a job loses on its way to another queue while it stays reserved."""


def has_to_be_stored(row: JobRow, move: Move) -> bool:
    """Return whether a move has to be stored at once, for what the item is, or how it goes on."""
    ordered = move.order_key is not None or row.order_key is not None
    return bool(move.delay) or ordered or row.expires is not None or row.lost_leases > 0


def passed_on(row: JobRow, move: Move, now: int) -> JobRow:
    """Return a running job as its worker sees it after a move in memory: as if it had been reserved there at once."""
    payload, came_with = row.payload if move.payload is None else move.payload, arrival_payload(row)
    changed = payload != came_with
    trail = moved_trail(Lasting(row.trail, row.queue, row.enqueued_at), row.attempts, move.queue, now, changed=changed)
    entry = came_with if changed and move.keep_entry and trail.first else row.entry_payload
    headers = row.headers if move.headers is None else move.headers
    came = move.queue, payload, items_in(payload), entry, headers, move.lane, now, now, trail.text
    return _new(JobRow, _as_passed((*row, *came, *_ON_ITS_WAY.values())))


_CAME: Final = ("queue", "payload", "items", "entry_payload", "headers", "lane", "run_at", "started_at", "trail")
_ON_ITS_WAY: Final = {"arrival_payload": None, "progress": None, "attempts": 1, **PASSED}
# What comes later takes the place of what the job had.
_PLACES: Final = {name: n for n, name in enumerate((*JobRow._fields, *_CAME, *_ON_ITS_WAY))}
_as_passed: Final = itemgetter(*map(_PLACES.__getitem__, JobRow._fields))


def _given_back(row: JobRow, outcome: Rollback, queue: QueueSettings, now: int) -> Transition:
    row = with_payload(row, outcome.payload)
    if outcome.refund:
        row = row._replace(attempts=row.attempts - 1)
    if outcome.error is not None:
        failed = not outcome.refund
        again = failed and row.attempts < row.max_attempts and not row.cancel_requested
        until = {"until": (now + int(outcome.delay * SECOND)) / SECOND} if again else {}
        row = _failed(row, outcome, outcome.error, now, **until) if failed else put_off(row, outcome.error, now)
    elif outcome.delay or not outcome.refund:
        row = forgiven(not_put_off(row))  # a job returned immediately, unharmed, may not have begun
    if row.cancel_requested:
        return Transition(_cancelled(row, "", now), "cancelled")
    if row.attempts >= row.max_attempts:
        dead = row if outcome.error is not None else with_error(row, _used_up(row), None, now)
        return _dead(dead, queue, now)
    # A job returned unharmed keeps its order in the queue.
    run_at = row.run_at if outcome.refund and not outcome.delay else now + int(outcome.delay * SECOND)
    return Transition(_unreserved(row)._replace(run_at=run_at), "rolled_back")


def _used_up(row: JobRow) -> str:
    """Return the error of a dead job whose last rollback has none."""
    return f"AttemptsUsedUp: rolled back without an error in the last of its {row.max_attempts} attempts"


def _dead(row: JobRow, queue: QueueSettings, now: int) -> Transition:
    if queue.dead_letter is None or queue.dead_letter == row.queue:
        return Transition(_finished(row, JobState.DEAD, now), "buried")
    letter = _restarted(row, now)._replace(
        queue=queue.dead_letter,
        trail=trail_to(row, queue.dead_letter, now),
        lane=UNLANED,
        key=None,
        errors=row.errors,
    )
    return Transition(as_letter(letter, row, now), "buried")


def _moved(row: JobRow, outcome: Move | Continue, queue: str, payload: Content, now: int) -> JobRow:
    keep_entry, keep_arrival = outcome.keep_entry, outcome.keep_arrival
    return moved_job(row, queue, now, payload, keep_entry=keep_entry, keep_arrival=keep_arrival)


def _continued(row: JobRow, job: NewJob, now: int, outcome: Continue) -> JobRow:
    """Return the job as its next call: same flow position, and the same key while it stays in its queue.

    The call expires as if it were pushed now, though the job keeps the time of its push.
    """
    elsewhere = (
        logical_name(job.queue) != logical_name(row.queue) or job.task is None
    )  # an item may return to its station
    gone = _moved(row, outcome, job.queue, job.payload, now) if elsewhere else None
    return created(job, now)._replace(
        trail=row.trail if gone is None else gone.trail,
        entry_payload=None if gone is None else gone.entry_payload,
        kept_payloads=None if gone is None else gone.kept_payloads,
        past_waits=row.past_waits,
        id=row.id,
        enqueued_at=row.enqueued_at,
        expires=None if job.expires is None else (now - row.enqueued_at) / SECOND + job.expires,
        key=row.key if job.queue == row.queue else None,
        origin=row.origin,
        token=row.token,
    )


def _finished(row: JobRow, state: JobState, now: int) -> JobRow:
    return row._replace(
        state=state.value,
        finished_at=now,
        lease_until=None,
        cancel_requested=False,
        rank=row.priority,
        **HOLDS_NOTHING,
    )


def _cancelled(row: JobRow, reason: str, now: int) -> JobRow:
    if reason:
        row = with_error(row, f"Cancel: {reason}", None, now)
    return _finished(wait_over(row, now), JobState.CANCELLED, now)


def _failed(row: JobRow, outcome: Rollback | Bury, error: str, now: int, **fields: object) -> JobRow:
    failed = with_error(row, error, outcome.traceback, now, outcome.group, outcome.type, **fields)
    return forgiven(failed._replace(failures=row.failures + 1))


def popped(row: JobRow) -> JobRow:
    """Return a reserved job as it is once committed, for the caller that popped it."""
    return _finished(row, JobState.DONE, row.started_at or 0)
