"""Effects of a push on the job that has the key of a new one."""

from __future__ import annotations

from stanchion.stores.cas.entries import FollowUp, entry_of
from stanchion.stores.cas.jobs import Change, Jobs, Result, Seen
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.jobs import replaced


def replace_work(jobs: Jobs, follow_up: FollowUp, holder: Seen, job: NewJob, now: int) -> JobRow | None:
    """Give the work of a new job to the holder of its key, unless that runs; None if it has changed meanwhile."""
    renewed = replaced(holder.row, job, now)
    if renewed is None:
        return holder.row
    entry = entry_of(holder.row, renewed, None, None, now)
    if jobs.compare_and_set([Change(holder, renewed, entry=entry)]).each != [Result.DONE]:
        return None
    follow_up([entry] if entry else [])
    return renewed


def unrefused(job: NewJob) -> NewJob:
    """Return a job that can't be refused as a duplicate, because others of its flow are stored."""
    return job._replace(on_duplicate="return") if job.on_duplicate == "raise" else job
