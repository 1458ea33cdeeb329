"""The expiry of jobs: from its time on, no attempt of a job begins, and the job ends as cancelled.

A claim reserves an expired job like others, and ends it instead of delivering it: no attempt counts. Upkeep ends the
expired jobs that no claim takes, such as those that wait for a slot, or are in a paused queue. An attempt that began
before may end as usual; if it fails, the job has expired when it is due again. A worker that claims ahead returns jobs
that expire before it begins them: the next claim ends them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.rules.upkeep import Budget

EXPIRED: Final = "expired"
"""Reason of the cancellation of an expired job."""

_NEVER: Final = 2**62
_PORTION: Final = 500
"""Expired jobs that upkeep looks at together."""


def expiry_of(row: JobRow) -> int:
    """Return the time after which no attempt of a job begins; never for a number that another program made no time."""
    micros = _NEVER if row.expires is None else row.expires * SECOND
    return row.enqueued_at + int(max(micros, 0)) if micros < _NEVER else _NEVER


def is_overdue(row: JobRow, now: int) -> bool:
    """Return True if a live job has expired, and no attempt of it is under way."""
    return row.state != JobState.RUNNING and row.finished_at is None and expiry_of(row) <= now


def is_too_late(row: JobRow) -> bool:
    """Return True if a job was reserved after its expiry, so that it must not be delivered."""
    return row.expires is not None and row.started_at is not None and expiry_of(row) <= row.started_at


def seconds_left(row: JobRow) -> float:
    """Return the seconds from the reservation of a job until it expires."""
    return (expiry_of(row) - (row.started_at or 0)) / SECOND


def end_overdue(end_some: Callable[[int], int], budget: Budget) -> None:
    """End expired jobs, a portion at a time and at least one, as far as time allows.

    `end_some` ends up to so many of the expired jobs that do not run; it returns the number it has looked at.
    """
    while end_some(_PORTION) == _PORTION and budget.left:
        pass
