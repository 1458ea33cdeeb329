"""The parts of chunks, and items that are split: what they keep of the job that they come from."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from stanchion.core.values.framing import Content
from stanchion.stores.fields.jobs import CHOSEN
from stanchion.stores.records.jobs import JobRow, NewJob

_KEPT: Final = tuple(
    name for name in CHOSEN if name not in {"queue", "lane", "priority", "task", "headers", "key", "limits"}
)
"""Fields that an item has at all stations."""
_kept: Final = attrgetter(*_KEPT)
_SHORT_FIELDS: Final = 500
"""Bytes of the short fields of a job."""


def part_of(row: JobRow, queue: str, payload: Content) -> NewJob:
    """Return a job, without an id, in a queue, with what an item keeps at all stations and its place here."""
    kept = dict(zip(_KEPT, _kept(row), strict=True))
    return NewJob("", queue, payload, priority=row.priority, headers=row.headers, limits=row.limits, **kept)


def unrun(row: JobRow, job: NewJob) -> NewJob:
    """Return a part of a reserved chunk that was not run: with its lane, time, attempts and errors; dead if it is."""
    attempts = row.attempts - 1 if row.dead_attempts is None else row.dead_attempts
    return job._replace(lane=row.lane, run_at=row.run_at, attempts=attempts, errors=row.errors, dead_from=row.dead_from)


def weight_of(row: JobRow) -> int:
    """Return about how many bytes each part of a chunk takes besides its items."""
    return _SHORT_FIELDS + sum(len(one or "") for one in (row.errors, row.trail, row.headers, row.limits))
