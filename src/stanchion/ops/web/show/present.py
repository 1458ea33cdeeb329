"""The present state of a job: as a sentence, and as the last step of its story."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from stanchion.core.text.durations import spelled
from stanchion.jobs.job import Job, JobState, is_deferred
from stanchion.ops.expiry import has_expired, why_expired

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Step(NamedTuple):
    """What happened at a time. `error`, `traceback`: redacted."""

    at: datetime
    mark: str
    title: str
    text: str = ""
    error: str = ""
    traceback: str = ""
    took: str = ""


def attempts(count: int) -> str:
    """Return `one attempt`, `five attempts`, `25 attempts`."""
    return f"{_NUMBERS[count] if count < len(_NUMBERS) else count} {'attempt' if count == 1 else 'attempts'}"


def sentence(job: Job, waits_for: str | None) -> str:
    """Return the state of a job as a sentence without its subject."""
    match job.state:
        case JobState.DEAD:
            return f"is dead after {attempts(job.attempts)}" if job.attempts else "is dead, and never ran"
        case JobState.DONE:
            return "is done" if job.attempts < 2 else f"is done after {attempts(job.attempts)}"
        case JobState.CANCELLED:
            return "has expired" if has_expired(job) else "is cancelled"
        case JobState.RUNNING:
            return "is asked to stop" if job.cancelled else "is running"
        case JobState.WAITING:
            return f"waits for {waits_for}" if waits_for else "waits"
        case JobState.SCHEDULED:
            if is_deferred(job):
                return "is put off by its rate"
            return "backs off after a failed attempt" if job.failures else "is scheduled"
        case _:
            return "is ready"


def present_step(job: Job, waits_for: str | None) -> Step | None:
    """Return the step that describes the present state of the job."""
    ended, started = job.finished_at, job.started_at
    took = spelled((ended - started).total_seconds()) if ended and started and ended >= started else ""
    on = f"On {job.worker}." if job.worker else ""
    match job.state:
        case JobState.DEAD if ended is not None:
            return Step(ended, job.state, f"Dead: {_death(job)}")
        case JobState.DONE if ended is not None:
            return Step(ended, job.state, "Done", on, took=took)
        case JobState.CANCELLED if ended is not None:
            if has_expired(job):
                return Step(ended, job.state, "Expired", why_expired(job))
            return Step(ended, job.state, "Cancelled")
        case JobState.RUNNING if started is not None:
            return Step(started, "running", f"Attempt {job.attempts} runs", on)
        case JobState.WAITING:
            return Step(job.waits_since or job.run_at, "waiting", f"Parked: waits for {waits_for or 'a slot'}")
        case JobState.SCHEDULED:
            return Step(job.run_at, "scheduled", "Put off by its rate until then" if is_deferred(job) else "Due then")
        case _:
            return Step(job.run_at, "ready", "Due since then, and not taken yet") if job.failures else None


def _death(job: Job) -> str:
    """Return why a job is dead, as far as its attempts show. The step before this one shows the error."""
    if job.attempts >= job.max_attempts:
        return "its one attempt is used up" if job.attempts == 1 else f"its {attempts(job.attempts)} are used up"
    return "it was not to be tried again" if job.attempts else "it never ran"
