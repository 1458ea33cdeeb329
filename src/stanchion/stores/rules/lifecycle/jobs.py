"""The rows of jobs: created, replaced, copied and restarted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from stanchion.core.values.framing import Content, items_in
from stanchion.errors import DuplicateKey
from stanchion.stores.fields.jobs import BY_RULE, CHOSEN, Step, cleared
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Tally
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.rules.capacity.slots import HOLDS_NOTHING, held_between, hold_tokens
from stanchion.stores.rules.lifecycle.dead_letters import is_letter
from stanchion.stores.rules.lifecycle.past_waits import wait_over


class Transition(NamedTuple):
    """The row after a step, and the queue counter that the step increments by its items.

    `told`: what the step counts in place of that, where it divides a chunk or passes queues.
    """

    row: JobRow
    counted: str
    told: tuple[Tally, ...] = ()

    @property
    def final(self) -> bool:
        """True if the job goes to history."""
        return self.row.finished_at is not None

    def state(self, now: int) -> JobState:
        """Return the final state of the attempt: dead also if the job was moved to a dead-letter queue."""
        return JobState.DEAD if self.counted == "buried" else stored_state_of(self.row, now)

    def tallies(self, before: JobRow) -> tuple[Tally, ...]:
        """Return what the step of this job adds to the counters of queues."""
        return self.told or (Tally(before.queue, self.counted, items_of(before)),)


def items_of(row: JobRow | NewJob) -> int:
    """Return the number of items that a job stands for."""
    items = row.items if isinstance(row, JobRow) else items_in(row.payload)
    return 1 if items is None else items


_new: Final = tuple.__new__
"""Makes a record in a third of the time of its constructor, which is a Python function; each push makes rows."""
_NOT_YET: Final = tuple(name for name in JobRow._fields if name not in {*NewJob._fields, *BY_RULE})
_NONE_YET: Final = tuple(JobRow._field_defaults[name] for name in _NOT_YET)
# What a rule decides comes after what is given, and takes its place.
_SOURCES: Final = {name: n for n, name in enumerate((*NewJob._fields, *BY_RULE, *_NOT_YET))}
_as_created: Final = itemgetter(*map(_SOURCES.__getitem__, JobRow._fields))
_chosen: Final = attrgetter(*CHOSEN)


def items_of_all(rows: Collection[JobRow]) -> int:
    """Return the number of items that jobs stand for."""
    items: list[int | None] = list(map(_items, rows))
    return items.count(None) + sum(filter(None, items))


_items: Final = attrgetter("items")  # called by built-ins, without a frame for each job


def created(job: NewJob, now: int) -> JobRow:
    """Return the row of a new job."""
    waits = job.waits_kind is not None
    by_rule = JobState.WAITING.value if waits else QUEUED, job.priority, due_at(job, now), now, now if waits else None
    row = _new(JobRow, _as_created((*job, *by_rule, *_NONE_YET)))
    # `is_part`, without its call
    if job.attempts or job.dead_from is not None or job.enqueued_at is not None or isinstance(job.payload, bytes):
        return _part(row if job.enqueued_at is None else row._replace(enqueued_at=job.enqueued_at), now)
    return row


def is_part(job: NewJob) -> bool:
    """Return True if a new job carries a chunk, or comes from one with its place or the failures of its items."""
    given = job.dead_from is not None or job.enqueued_at is not None
    return isinstance(job.payload, bytes) or bool(job.attempts) or given


def _part(row: JobRow, now: int) -> JobRow:
    """Return the row of a job that carries a chunk, or comes from one with the failures of its items."""
    part = row._replace(items=items_in(row.payload), failures=row.attempts)
    if part.dead_from is None:
        return part
    if part.dead_from == part.queue:  # without a dead-letter queue, the dead stay in history
        return part._replace(state=JobState.DEAD.value, finished_at=now, dead_from=None)
    return part._replace(attempts=0, failures=0, dead_at=now, dead_attempts=part.attempts)


def due_at(job: NewJob, now: int) -> int:
    """Return when a new job is due, in microseconds."""
    return job.run_at if job.run_at is not None else now + int((job.delay or 0) * SECOND)


def replaced(row: JobRow, job: NewJob, now: int) -> JobRow | None:
    """Give a queued job the work and the schedule of `job`, which has the same key; None if it runs."""
    if row.state == JobState.RUNNING:
        return None
    if row.state == QUEUED or row.waits_kind == SEMAPHORE:
        # A new schedule changes its order in the queue; it keeps no slot until then.
        row = _unreserved(wait_over(row, now))
    return row._replace(
        task=job.task,
        payload=job.payload,
        items=items_in(job.payload),
        arrival_payload=None,
        headers=job.headers,
        priority=job.priority,
        rank=job.priority,
        run_at=due_at(job, now),
    )


def with_payload(row: JobRow, payload: Content | None) -> JobRow:
    """Return a job with another payload (None: unchanged); keep the payload of its arrival in the queue."""
    if payload is None:
        return row
    return row._replace(payload=payload, items=items_in(payload), arrival_payload=arrival_payload(row))


def arrival_payload(row: JobRow) -> Content:
    """Return the payload of a job on its arrival in its queue."""
    return row.payload if row.arrival_payload is None else row.arrival_payload


def refuse_duplicates(jobs: Iterable[NewJob], holders: Mapping[tuple[str, str | None], str]) -> None:
    """Raise DuplicateKey for a job that asks for it; `holders`: the live jobs that have keys, by queue and key."""
    coming = dict(holders)
    for job in jobs:
        holder = job.id if job.key is None else coming.setdefault((job.queue, job.key), job.id)
        if holder != job.id and job.on_duplicate == "raise":
            raise DuplicateKey(job.queue, job.key or "", holder)


def key_held_since(job: NewJob, now: int) -> int:
    """Return the time after which a job with the key of `job` must have finished to hold it."""
    return now - int((job.key_ttl or 0) * SECOND)


def holds_key(row: JobRow, job: NewJob, now: int) -> bool:
    """Return True if a finished job holds its key against a new one with the same key: not if it was cancelled."""
    return (
        job.key_ttl is not None
        and row.state != JobState.CANCELLED
        and row.finished_at is not None
        and row.finished_at > key_held_since(job, now)
    )


def copy_of(row: JobRow, new_id: str) -> NewJob:
    """Return a copy of a finished job as it came to its queue, due now; `origin` names the finished job."""
    return NewJob(
        id=new_id, payload=arrival_payload(row), origin=row.id, **dict(zip(CHOSEN, _chosen(row), strict=True))
    )


def state_of(row: JobRow, now: int) -> JobState:
    """Return the state as callers see it: a dead letter is dead."""
    return JobState.DEAD if is_letter(row) else stored_state_of(row, now)


def stored_state_of(row: JobRow, now: int) -> JobState:
    """Return the state of a job in its queue: a dead letter can be claimed there like any other job.

    A state that another program has made up counts as queued, or as dead in history.
    """
    if (known := _STATES.get(row.state)) is not None:
        return known
    if row.finished_at is not None:
        return JobState.DEAD
    return JobState.READY if row.run_at <= now else JobState.SCHEDULED


_STATES: Final = {state.value: state for state in JobState}


def detached(row: JobRow, now: int) -> JobRow:
    """Return a job as another store receives it: holding nothing and waiting for nothing; no live job of a flow.

    Its present wait ends `now`, by its store's clock; a wait for a rate lasts until the job is due.
    """
    known = row if row.waits_for is None else wait_over(row, now)
    detached_row = known._replace(rank=row.priority, **HOLDS_NOTHING)
    return detached_row if row.finished_at is not None else detached_row._replace(state=QUEUED)


def arriving(row: JobRow, now: int) -> JobRow:
    """Return a job as the target shard of its partition stores it: a retry that holds its order key is due.

    The job has begun before the others of its key, which do not wait for it there. It comes before them by its time.
    """
    there = detached(row._replace(cancel_requested=False), now)
    if row.finished_at is None and held_between(row):
        return there._replace(run_at=min(row.run_at, row.enqueued_at))
    return there


def _unreserved(row: JobRow) -> JobRow:
    return row._replace(
        state=QUEUED,
        rank=row.priority,
        **{**_RELEASED, "slots_held": held_between(row), "order_hold": hold_tokens(row).order},
    )


def _restarted(row: JobRow, run_at: int) -> JobRow:
    return row._replace(state=QUEUED, rank=row.priority, run_at=run_at, **_RESTARTED)


_RELEASED: Final = cleared(Step.RELEASED)
_RESTARTED: Final = cleared(Step.RESTARTED)
