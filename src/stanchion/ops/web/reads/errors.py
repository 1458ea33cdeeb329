"""Dead jobs grouped by what ended them: the kind of the error, and the task."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from stanchion.core.error_kinds import kind_of
from stanchion.jobs.job import Job

READ: Final = 2000
"""Dead jobs that are read, the newest."""


class Group(NamedTuple):
    """Jobs that ended by one error in one task. `error`: without what varies; `queues`: where; `ids`: some of them."""

    key: str
    error: str
    task: str
    queues: tuple[str, ...]
    jobs: int
    first: datetime
    last: datetime
    ids: tuple[str, ...]


def groups_of(jobs: Iterable[Job]) -> list[Group]:
    """Return the groups of these jobs, the largest first."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.error_group or "", []).append(job)
    groups = [_group(key, members) for key, members in found.items()]
    return sorted(groups, key=lambda one: (-one.jobs, one.key))


def _group(key: str, jobs: list[Job]) -> Group:
    ends = [job.finished_at or job.run_at for job in jobs]
    error = kind_of(str(jobs[0].errors[-1].get("error", ""))) if key else "buried without an error"
    queues = tuple(sorted({job.queue for job in jobs}))
    return Group(
        key, error, jobs[0].task or "", queues, len(jobs), min(ends), max(ends), tuple(job.id for job in jobs[:5])
    )
