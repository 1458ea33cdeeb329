"""The expiry of jobs, as people read it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from stanchion.core.text.durations import spelled
from stanchion.jobs.job import Job, JobState
from stanchion.ops.job_json import last_error
from stanchion.stores.rules.expiry import EXPIRED

EXPIRES: Final = "expires"
"""The field of a job with the seconds of its expiry."""


def expires_at(job: Job) -> datetime | None:
    """Return when a job is cancelled unless an attempt has begun by then; None: it never is, runs, or has ended."""
    if job.expires is None or job.state.final or job.state is JobState.RUNNING:
        return None
    return job.enqueued_at + timedelta(seconds=job.expires)


def has_expired(job: Job) -> bool:
    """Return whether a job was cancelled because no attempt had begun in time."""
    return job.expires is not None and job.state is JobState.CANCELLED and last_error(job) == f"Cancel: {EXPIRED}"


def why_expired(job: Job) -> str:
    """Return a sentence on the attempt that did not begin in time."""
    if job.attempts:
        return f"Its next attempt was due later than {spelled(job.expires)} after its push."
    return f"No attempt began within {spelled(job.expires)} of its push."


def expiry_of(job: Job) -> str:
    """Return when a job expires as text; empty if it doesn't any more."""
    at = expires_at(job)
    return f"{at:%Y-%m-%d %H:%M:%S}, unless an attempt has begun by then" if at else ""
