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


def part_of(row: JobRow, queue: str, payload: Content) -> NewJob:
    """Return a job, without an id, in a queue, with what an item keeps at all stations and its place here."""
    kept = dict(zip(_KEPT, _kept(row), strict=True))
    return NewJob("", queue, payload, priority=row.priority, headers=row.headers, limits=row.limits, **kept)
