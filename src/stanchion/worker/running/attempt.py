"""One attempt at a job inside a worker, and its result for the finisher."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import Context

from stanchion.errors import TaskTimeout
from stanchion.jobs.held_job import ask_to_stop, lease_of, stored_outcome
from stanchion.jobs.outcome import Outcome
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow, Lease
from stanchion.stores.rules.lifecycle.outcomes import commit_of
from stanchion.tasks.batches.execution import BatchExecution
from stanchion.tasks.execution import Attempted, Execution, outcome_of_error, outcome_of_value

Finished = tuple[outcomes.Outcome | None, Reservation | None, BaseException | None]
"""The outcome to store (None: the task settled its job itself), the job to report on (None: no listener hears of it),
and its error."""

Ends = Sequence[Finished]
"""The ends of the jobs of an attempt, in the order of its rows: one, or those of a batch."""


class Limit:
    """How long one attempt may run, in seconds.

    `interrupt` is called at the deadline, and then each time that `again` returns True for the seconds since.
    """

    __slots__ = ("again", "deadline", "expired", "interrupt", "lock", "over", "seconds")

    def __init__(self, seconds: float, interrupt: Callable[[], object], again: Callable[[float], bool]) -> None:
        self.seconds, self.interrupt, self.again = seconds, interrupt, again
        self.deadline = time.monotonic() + seconds
        self.expired = self.over = False
        self.lock = threading.Lock()
        """Its own: threads that shared one would wake each other for each job, once they had met there."""


class Attempt(Execution):
    """An execution that a worker watches."""

    __slots__ = ("began", "claimed_at", "context", "limit", "seconds", "wait_for")

    began: float
    """When it started, on the monotonic clock."""
    context: Context
    """The context variables of this attempt only: a job's changes do not reach the next one."""
    claimed_at: float
    """When the claim of its job was sent, by the boot clock."""
    seconds: float | None
    """Its time-out."""
    limit: Limit | None
    wait_for: Callable[[Awaitable[object]], object]
    """Waits in this thread for something that runs on the worker's event loop."""

    @property
    def rows(self) -> Sequence[JobRow]:
        """The job as it was claimed, in a list."""
        return (self.row,)

    @property
    def label(self) -> str:
        """Its name in logs."""
        return f"job {self.row.id} ({self.row.task})"

    def awaited(self, value: Awaitable[object]) -> object:
        """Wait for a call's awaitable, made in this thread, on the event loop of the async tasks."""
        return self.wait_for(value)

    def ask_to_stop(self, ids: Collection[str]) -> bool:  # noqa: ARG002 - its own is among them
        """Ask its job to stop; return whether nothing is left to do."""
        ask_to_stop(self.job)
        return True

    # -- how it ends

    def returned(self, value: object) -> Ends:
        """Return its end after the task has returned; the work of a chunk tells which of its items ran too long."""
        if self.limit is not None and self.limit.expired and self.row.items is None:
            return self.timed_out(self.limit)
        if value is None and self.row.task is not None and not self.heard:
            return ((commit_of(self.row), None, None),)
        error = value if isinstance(value, Outcome) else None
        return ((outcome_of_value(self, value), self.job, error),)

    def raised(self, error: BaseException) -> Ends:
        """Return its end after the task has raised."""
        if self.limit is not None and self.limit.expired:
            return self.timed_out(self.limit, error)
        job = self.job
        if isinstance(error, asyncio.CancelledError) and job.cancelled and job.settled_as is None:
            return ((outcomes.Abandon(lease_of(job)), job, None),)
        return ((outcome_of_error(self, error), job, error),)

    def timed_out(self, limit: Limit, stopped_by: BaseException | None = None) -> Ends:
        """Return its failure after it ran too long, whatever it returned or raised."""
        error = timeout_error(limit, stopped_by)
        return ((outcome_of_error(self, error), self.job, error),)

    def interrupted(self) -> Ends:
        """Return its end after the worker has cut it off: the job goes back, and the attempt does not count."""
        return (interrupted(self),)


class BatchAttempt(BatchExecution):
    """An attempt at the jobs of a batch, by one call that a worker watches."""

    __slots__ = ("began", "context", "limit", "seconds", "wait_for")

    began: float
    context: Context
    seconds: float | None
    limit: Limit | None
    wait_for: Callable[[Awaitable[object]], object]

    @property
    def label(self) -> str:
        """Its name in logs."""
        return f"a batch of {len(self.members)} jobs ({self.work.name})"

    def awaited(self, value: Awaitable[object]) -> object:
        """Wait for a call's awaitable, made in this thread, on the event loop of the async tasks."""
        return self.wait_for(value)

    def ask_to_stop(self, ids: Collection[str]) -> bool:
        """Ask those of its jobs to stop; return whether all of its jobs were asked, so that nothing is left to do."""
        for member in self.members:
            if member.row.id in ids:
                ask_to_stop(member.job)
        return all(member.asked_to_stop for member in self.members)

    # -- how it ends

    def returned(self, value: object) -> Ends:
        """Return the ends of its jobs after the task has returned."""
        if self.limit is not None and self.limit.expired:
            return self.timed_out(self.limit)
        return _finished(self.ended(value))

    def raised(self, error: BaseException) -> Ends:
        """Return the ends of its jobs after the task has raised."""
        if self.limit is not None and self.limit.expired:
            return self.timed_out(self.limit, error)
        return _finished(self.failed(error))

    def timed_out(self, limit: Limit, stopped_by: BaseException | None = None) -> Ends:
        """Return the failures of its jobs after it ran too long."""
        return _finished(self.failed(timeout_error(limit, stopped_by)))

    def interrupted(self) -> Ends:
        """Return the ends of its jobs after the worker has cut it off: they go back, and the attempt does not count."""
        return [interrupted(member) for member in self.members]


AnyAttempt = Attempt | BatchAttempt

Running = dict[int, AnyAttempt]
"""The running attempts, by slot. The remover of an attempt reports its end: the thread that ran it, or the one that
gives it up. `pop` is atomic, so exactly one of them does."""


def for_the_store(job: Reservation, end: Finished) -> Finished:
    """Return the end of a job that came to its station in memory, or of a chunk, as the store gets it."""
    outcome, _, error = end
    assert not isinstance(outcome, outcomes.Renewal)  # noqa: S101 - it is an end
    return None if outcome is None else stored_outcome(job, outcome), job, error


def timeout_error(limit: Limit, stopped_by: BaseException | None) -> TaskTimeout:
    """Return the error of an attempt that ran too long."""
    error = TaskTimeout(f"ran longer than {limit.seconds:g} s")
    if stopped_by is not None:
        error.__traceback__ = stopped_by.__traceback__
    return error


def not_started(row: JobRow) -> Finished:
    """Return the end of a claimed job that was not started: it goes back, and no attempt counts."""
    return _given_back(row.lease), None, None


def interrupted(attempt: Execution) -> Finished:
    """Return the end of a job that a worker cuts off; an outcome that a batch has recorded for it is stored."""
    if (own := attempt.settlement) is not None:
        return own.outcome, attempt.job, None
    return None if attempt.settled else _given_back(attempt.row.lease), attempt.job, None


def _finished(ends: Sequence[Attempted]) -> Ends:
    return [(outcome, job, error) for job, outcome, error in ends]


def _given_back(lease: Lease) -> outcomes.Outcome:
    return outcomes.Rollback(lease, 0.0, refund=True)
