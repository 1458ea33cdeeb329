"""Pushes: the effect on the job that has the key of a new one, and jobs that start running immediately.

Jobs that start are stored, and then claimed by their ids. A death in between leaves them queued. If a claim of another
process is faster, the push says that they were queued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from stanchion.stores.cas.entries import FollowUp, entry_of
from stanchion.stores.cas.jobs import Change, Jobs, Result, Seen
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed
from stanchion.stores.rules.capacity.starts import claim_of, with_tokens
from stanchion.stores.rules.lifecycle.jobs import replaced


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


class Stored(NamedTuple):
    """The results of a push, and the ids of the jobs that it has stored; others were known, or met a key."""

    pushed: list[Pushed]
    new: set[str]


class Stores(Protocol):
    """Stores new jobs."""

    def push_new(self, jobs: Sequence[NewJob]) -> Stored:
        """Store jobs as `push` does, and say which of them are new."""


class Starts:
    """Stores new jobs, and reserves the ones that a claim names."""

    def __init__(self, jobs: Jobs, stores: Stores, claim: Callable[[Claim], Claimed]) -> None:
        self._jobs, self._stores, self._claim = jobs, stores, claim

    def push(self, jobs: Sequence[NewJob], claim: Claim) -> list[Pushed]:
        """Store jobs; the claim's jobs that were not known before run immediately, as far as they may."""
        pushed, new = self._stores.push_new(jobs)
        if not claim.ids or not jobs:
            return pushed
        started = claim_of(claim, new)
        running = {row.id for row in self._claim(started).rows} if started is not None else set()
        if known := [job.id for job in jobs if job.id not in new]:
            _, seen = self._jobs.read(known, [claim.queue] * len(known))
            rows = (one.row for one in seen.values())
            running |= {row.id for row in rows if row.state == JobState.RUNNING and row.token == claim.token}
        return with_tokens(pushed, claim, running)
