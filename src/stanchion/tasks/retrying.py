"""Retrying: how a job continues after an attempt that failed."""

from __future__ import annotations

from stanchion.context.work import Work
from stanchion.core.functions import codes_of
from stanchion.core.retry import delay_or_default, is_named
from stanchion.core.text.error_texts import bounded_trace
from stanchion.core.text.tracebacks import own_code
from stanchion.jobs.failures import Failure
from stanchion.jobs.job import Job
from stanchion.jobs.outcome import Bury as BuryJob
from stanchion.stores.records.jobs import Lease
from stanchion.stores.records.outcomes import Bury, Rollback

_MISTAKES = (TypeError, NameError, UnboundLocalError, AttributeError)
"""What Python raises for mistakes in code. Subclasses are left out: somebody raises them on purpose."""

_NAMES = frozenset(kind.__name__ for kind in _MISTAKES)


def after_failure(lease: Lease, job: Job, work: Work, error: BaseException, failure: Failure) -> Rollback | Bury:
    """Return the outcome of an attempt that failed. `failure`: its error, as it is stored.

    Raises Bury if the policy of the task does.
    """
    if work.attempts_max is not None and job.attempts >= work.attempts_max:
        return Bury(lease, *failure)
    if (reason := _why_ended(job, work, error)) is not None:
        return Bury(lease, *_with_reason(failure, reason))
    delay = delay_or_default(work.retry, job.failures + 1, error, job.task, BuryJob)
    if delay is None:
        return Bury(lease, *_with_reason(failure, f"the retry policy gives up on {type(error).__name__}"))
    return Rollback(lease, delay, *failure)


def _why_ended(job: Job, work: Work, error: BaseException) -> str | None:
    """Return why a programming error ends a job; None if it does not."""
    policy = work.retry
    most = policy.programming_errors
    if most is None or type(error) not in _MISTAKES or is_named(policy, error):
        return None
    if own_code(error) not in codes_of(work.function) or _before(job) + 1 < most:
        return None
    return f"{most} programming errors in a row; see programming_errors= of Retry"


def _before(job: Job) -> int:
    """Return the number of errors of these types that the job has had last, one after the other."""
    number = 0
    for entry in reversed(job.errors):
        if entry.get("type") not in _NAMES:
            break
        number += 1
    return number


def _with_reason(failure: Failure, reason: str) -> Failure:
    """Return an error with the reason why the job is not retried, below its traceback: its message stays the same."""
    trace = failure.traceback
    return failure if trace is None else failure._replace(traceback=bounded_trace(f"{trace}Not retried: {reason}\n"))
