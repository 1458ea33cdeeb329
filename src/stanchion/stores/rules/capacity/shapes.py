"""Stored shape of a queue: which kinds of jobs it has, so that a claim knows in advance what to check.

The first job that needs more than a plain claim sets the shape; upkeep resets it once no live job needs it. A shape
that claims too much costs time. One that claims too little is corrected by the claim that meets such a job, or by
upkeep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stanchion.stores.records.jobs import UNLANED, JobRow, NewJob
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.slots import uses_slots

FEW = 1000
"""Live jobs beyond which upkeep leaves the shape of a queue as it is."""


NAMES = ("uses_lanes", "uses_slots")
"""The settings that are derived from the jobs of a queue."""


def needs(job: JobRow | NewJob) -> frozenset[str]:
    """Return the shape settings that a job needs while it is live."""
    if isinstance(job, JobRow) and job.finished_at is not None:
        return frozenset()
    return frozenset(name for name, needed in zip(NAMES, (job.lane != UNLANED, uses_slots(job)), strict=True) if needed)


def shaped(settings: QueueSettings, job: JobRow | NewJob) -> QueueSettings:
    """Return the settings of a queue after it receives a job."""
    in_lane, with_slots = settings.uses_lanes or job.lane != UNLANED, settings.uses_slots or uses_slots(job)
    if (in_lane, with_slots) == (settings.uses_lanes, settings.uses_slots):
        return settings
    return replace(settings, uses_lanes=in_lane, uses_slots=with_slots)


def reshaped(settings: QueueSettings, live: Iterable[JobRow]) -> QueueSettings:
    """Return the settings of a queue with these live jobs; a queue with several lanes keeps using lanes."""
    back = replace(settings, uses_lanes=settings.lanes > 1, uses_slots=False)
    for job in live:
        back = shaped(back, job)
    return back
