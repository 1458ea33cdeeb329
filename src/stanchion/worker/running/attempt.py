"""One attempt at a job inside a worker, and its result for the finisher."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

from stanchion.errors import TaskTimeout
from stanchion.jobs.held_job import lease_of
from stanchion.jobs.outcome import Outcome
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow, Lease
from stanchion.stores.rules.lifecycle.outcomes import commit_of
from stanchion.tasks.execution import Execution, outcome_of_error, outcome_of_value

Finished = tuple[outcomes.Outcome | None, Reservation | None, BaseException | None]
"""The outcome to store (None: the task settled its job itself), the job to report on (None: no listener hears of it),
and its error."""


class Limit:
    """How long one attempt may run, in seconds.

    `interrupt` is called at the deadline, and then each time that `again` returns True for the seconds since.
    """

    __slots__ = ("again", "deadline", "expired", "interrupt", "over", "seconds")

    def __init__(self, seconds: float, interrupt: Callable[[], object], again: Callable[[float], bool]) -> None:
        self.seconds, self.interrupt, self.again = seconds, interrupt, again
        self.deadline = time.monotonic() + seconds
        self.expired = self.over = False


class Attempt(Execution):
    """An execution that a worker watches."""

    __slots__ = ("began", "context", "limit", "wait_for")

    began: float
    """When it started, on the monotonic clock."""
    context: Context
    """The context variables of this attempt only: a job's changes do not reach the next one."""
    limit: Limit | None
    wait_for: Callable[[Awaitable[Any]], Any]
    """Waits in this thread for something that runs on the worker's event loop."""

    def awaited(self, value: Awaitable[object]) -> object:
        """Wait for a call's awaitable, made in this thread, on the event loop of the async tasks."""
        return self.wait_for(value)


Running = dict[int, Attempt]
"""The running attempts, by slot. The remover of an attempt reports its end: the thread that ran it, or the one that
gives it up. `pop` is atomic, so exactly one of them does."""


def returned(attempt: Attempt, value: object) -> Finished:
    """Return the end of an attempt that returned."""
    if attempt.limit is not None and attempt.limit.expired:
        return timed_out(attempt, attempt.limit)
    if value is None and not attempt.heard:
        return commit_of(attempt.row), None, None
    error = value if isinstance(value, Outcome) else None
    return outcome_of_value(attempt, value), attempt.job, error


def raised(attempt: Attempt, error: BaseException) -> Finished:
    """Return the end of an attempt that raised."""
    if attempt.limit is not None and attempt.limit.expired:
        return timed_out(attempt, attempt.limit, error)
    job = attempt.job
    if isinstance(error, asyncio.CancelledError) and job.cancelled and job.settled_as is None:
        return outcomes.Abandon(lease_of(job)), job, None
    return outcome_of_error(attempt, error), job, error


def timed_out(attempt: Attempt, limit: Limit, stopped_by: BaseException | None = None) -> Finished:
    """Return the failure of an attempt that ran too long, whatever it returned or raised."""
    error = TaskTimeout(f"ran longer than {limit.seconds:g} s")
    if stopped_by is not None:
        error.__traceback__ = stopped_by.__traceback__
    return outcome_of_error(attempt, error), attempt.job, error


def not_started(row: JobRow) -> Finished:
    """Return the end of a claimed job that was not started: it goes back, and no attempt counts."""
    return _given_back(row.lease), None, None


def interrupted(attempt: Attempt) -> Finished:
    """Return the end of an attempt that the worker cuts off: it goes back, and does not count."""
    return None if attempt.settled else _given_back(attempt.row.lease), attempt.job, None


def _given_back(lease: Lease) -> outcomes.Outcome:
    return outcomes.Rollback(lease, 0.0, refund=True)
