"""Dead jobs grouped by what ended them: the type of the error, its message without what varies, and the task."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from stanchion.jobs.job import Job

READ: Final = 2000
"""Dead jobs that are read, the newest."""

LONGEST: Final = 300
"""Characters of a message that count."""

_VARIES: Final = (
    ("text", r"\"[^\"]{25,}\"|'[^']{25,}'"),
    ("id", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
    ("hex", r"\b(?=[0-9a-fA-F]*[0-9])(?:0x)?[0-9a-fA-F]{8,}\b"),
    ("mail", r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+\b"),
    ("url", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\")\]}>,]+"),
    ("time", r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"),
    ("host", r"\b(?:[a-zA-Z0-9-]{1,63}\.){1,8}(?:com|net|org|io|dev|example|local|internal|svc)\b(?::\d+)?"),
    ("path", r"(?<![\w<])(?:/[\w.@+-]{1,100}){2,}/?"),
    ("n", r"(?<![\w‹])[+-]?\d[\d,]*(?:\.\d+)?(?!\w)"),
)
_PATTERN: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _VARIES))


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


def normalised(error: str) -> str:
    """Return the first line of an error with names in place of what varies: `no answer from ‹host› in ‹n› s`.

    Short quoted words stay: in `KeyError: 'dep_time'` the word is the cause.
    """
    line = next(iter(error.splitlines()), "")[:LONGEST]
    return _PATTERN.sub(lambda match: f"‹{match.lastgroup}›", line)


def key_of(job: Job) -> str:
    """Return the key of the group of a job, 8 hexadecimal digits; empty if it has no error."""
    errors = job.errors
    if not errors:
        return ""
    text = f"{normalised(str(errors[-1].get('error', '')))}\0{job.task or ''}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def groups_of(jobs: Iterable[Job]) -> list[Group]:
    """Return the groups of these jobs, the largest first."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(key_of(job), []).append(job)
    groups = [_group(key, members) for key, members in found.items()]
    return sorted(groups, key=lambda one: (-one.jobs, one.key))


def _group(key: str, jobs: list[Job]) -> Group:
    ends = [job.finished_at or job.run_at for job in jobs]
    error = normalised(str(jobs[0].errors[-1].get("error", ""))) if key else "buried without an error"
    queues = tuple(sorted({job.queue for job in jobs}))
    return Group(
        key, error, jobs[0].task or "", queues, len(jobs), min(ends), max(ends), tuple(job.id for job in jobs[:5])
    )
