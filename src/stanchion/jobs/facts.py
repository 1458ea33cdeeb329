"""Facts about a job that only this package needs."""

from __future__ import annotations

from stanchion.jobs.job import Job, row_of
from stanchion.stores.rules.lifecycle import past_waits
from stanchion.stores.rules.lifecycle.trail import passed


def has_older_waits(job: Job) -> bool:
    """Return whether a job has waited more often than `past_waits` lists."""
    return past_waits.has_older_waits(row_of(job))


def has_failed_by(job: Job, group: str) -> bool:
    """Return whether one of the last errors of a job is of this group."""
    return f'"group":"{group}"' in (row_of(job).errors or "")


def has_passed(job: Job, queue: str) -> bool:
    """Return whether a job is in this queue, or has passed it."""
    return passed(row_of(job)._replace(queue=job.queue), queue)
