"""One attempt at a job inside a worker, and what is handed to the finisher when it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from stanchion.errors import TaskTimeout
from stanchion.jobs.outcome import Outcome
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow
from stanchion.tasks.execution import Execution, outcome_of_error, outcome_of_value

Finished = tuple[outcomes.Outcome | None, Reservation | None, BaseException | None]
"""The outcome to store (None: the task settled its job itself), the job to report on, and its error."""


class Limit:
    """How long one attempt may run. `interrupt` is called once, when it has."""

    __slots__ = ("deadline", "expired", "interrupt", "over", "seconds")

    def __init__(self, seconds: float, interrupt: Callable[[], object]) -> None:
        self.seconds, self.interrupt = seconds, interrupt
        self.deadline = time.monotonic() + seconds
        self.expired = self.over = False


class Attempt(Execution):
    """An execution that a worker watches."""

    __slots__ = ("began", "limit")

    began: float
    """When it started, on the monotonic clock."""
    limit: Limit | None


Running = dict[int, Attempt]
"""What runs, by slot. Taking an attempt out is what decides who answers for it: the one that ran it when it
ends, or another that gives it up; `pop` is atomic, so it is exactly one of them."""


def returned(attempt: Attempt, value: object) -> Finished:
    """Return what becomes of an attempt that returned."""
    if attempt.limit is not None and attempt.limit.expired:
        return timed_out(attempt, attempt.limit)
    error = value if isinstance(value, Outcome) else None
    return outcome_of_value(attempt, value), attempt.job, error


def raised(attempt: Attempt, error: BaseException) -> Finished:
    """Return what becomes of an attempt that raised."""
    if attempt.limit is not None and attempt.limit.expired:
        return timed_out(attempt, attempt.limit, error)
    job = attempt.job
    if isinstance(error, asyncio.CancelledError) and job.cancelled and job.settled_as is None:
        return outcomes.Abandon(job.id, job.token), job, None
    return outcome_of_error(attempt, error), job, error


def timed_out(attempt: Attempt, limit: Limit, stopped_by: BaseException | None = None) -> Finished:
    """Return the failure of an attempt that ran too long, whatever it returned or raised in the end."""
    error = TaskTimeout(f"ran longer than {limit.seconds:g} s")
    if stopped_by is not None:
        error.__traceback__ = stopped_by.__traceback__
    return outcome_of_error(attempt, error), attempt.job, error


def unharmed(row: JobRow) -> Finished:
    """Return the end of a job that nobody has begun: it goes back as if it had not been delivered."""
    assert row.token is not None  # noqa: S101 - a claimed row has one
    return _given_back(row.id, row.token), None, None


def interrupted(attempt: Attempt) -> Finished:
    """Return the end of an attempt that is cut off by no fault of its own."""
    job = attempt.job
    return None if job.settled_as is not None else _given_back(job.id, job.token), job, None


def _given_back(job_id: str, token: str) -> outcomes.Outcome:
    return outcomes.Rollback(job_id, token, 0.0, refund=True)
