"""Jobs as the store has them, made into what the API returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stanchion.errors import DuplicateKey, InvalidInput, JobNotFound
from stanchion.jobs.job import FreshJob, Job
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed, Redriven

if TYPE_CHECKING:
    from stanchion.app import Stanchion


def jobs_of(app: Stanchion, new: Sequence[NewJob], stored: Sequence[Pushed]) -> list[Job]:
    """Return the jobs of a push; a duplicate is read as it is now."""
    duplicates = [pushed.id for pushed in stored if pushed.duplicate]
    known = app.store.fetch(duplicates) if duplicates else {}
    return [
        app.job_of(known[pushed.id], duplicate=True)
        if pushed.duplicate and pushed.id in known
        else FreshJob(app, job, pushed)
        for job, pushed in zip(new, stored, strict=True)
    ]


def redriven_or_raise(job_id: str, verdict: Redriven, row: JobRow | None) -> None:
    """Turn a retry's verdict into the error that says what to do."""
    if verdict is Redriven.MISSING:
        raise JobNotFound(job_id)
    if verdict is Redriven.DONE:
        raise InvalidInput(f"job {job_id} is done; to run it once more, enqueue a copy with replay()")
    if verdict is Redriven.RUNNING:
        raise InvalidInput(f"job {job_id} is running; cancel it, or wait until it has finished")
    if verdict is Redriven.KEY_TAKEN:
        raise DuplicateKey(row.queue if row else "?", (row.key if row else None) or "?", job_id)
