"""The rows of jobs: how they begin, are replaced, replayed and restarted."""

from __future__ import annotations

from typing import Any, NamedTuple

from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState, NewJob
from stanchion.stores.rules.dead_letters import is_letter
from stanchion.stores.rules.slots import (
    HOLDER_BOOST,
    held_between,
    permits_of,
    semaphore_of,
)


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


def copy_of(row: JobRow, new_id: str) -> NewJob:
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


def detached(row: JobRow) -> JobRow:
    """Return a job, no live one of a flow, as another store is to get it: holding nothing, and in no line."""
    held_nothing = row._replace(priority=own_priority(row.priority), **_HOLDS_NOTHING)
    return held_nothing if row.finished_at is not None else held_nothing._replace(state=QUEUED)


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


_HOLDS_NOTHING: dict[str, Any] = {"held": 0, "permit": None, "waits_for": None, "waits_since": None}
