"""Jobs that an open transaction of Django has stored: only its own connection sees them until it commits.

Django itself forgets them: it removes the callbacks of a savepoint that is rolled back, and all of them at the end.
Within its TestCase they stay, so ask the store first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections, transaction

if TYPE_CHECKING:
    from stanchion.jobs.job import Job


class _Pending:
    """A callback for the commit, which does nothing but name the job.

    A test may run callbacks without a commit. The job is in the open transaction still.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self) -> None:
        pass


def remember(alias: str, job: Job) -> None:
    """Keep a new job in reach of `pending` until this thread's transaction ends."""
    if connections[alias].in_atomic_block:
        transaction.on_commit(_Pending(job), using=alias)


def pending(alias: str, job_id: str) -> Job | None:
    """Return the job with this id that this thread's transaction has stored, or None."""
    waiting = (callback for _, callback, *_ in connections[alias].run_on_commit)
    return next((one.job for one in waiting if isinstance(one, _Pending) and one.job.id == job_id), None)
