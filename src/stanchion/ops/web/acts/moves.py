"""Moving one ready job to another queue, by a reservation of a moment."""

from __future__ import annotations

from uuid import uuid4

from stanchion.context import context_of
from stanchion.core.names.partition_names import checked_queue
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.jobs.reservation import Reservation
from stanchion.ops.web.visit import Visit
from stanchion.stores.records.claims import Claim

LEASE = 30.0
"""Seconds after which the job returns if this process dies in between."""


def move(visit: Visit, job: Job, target: str) -> str:
    """Move a ready job; return its new queue. Raises InvalidInput, and changes nothing, if it can't be reserved now."""
    name, store = checked_queue(target.strip()), visit.store
    if not store.queues([name]):
        raise InvalidInput(f"there is no queue {name!r}; a push makes it")
    if name == job.queue:
        raise InvalidInput(f"the job is in {name} already")
    row = store.fetch([job.id]).get(job.id)
    visit.audit("move", job.id, 1, f"{job.queue} → {name}")
    claim = Claim(job.queue if row is None else row.queue, 1, str(uuid4()), lease=LEASE, ids=((job.id, ""),))
    rows = store.claim(claim).rows
    if not rows:
        raise InvalidInput(
            f"job {job.id} can't be moved now: only a ready job can, and not while its queue is paused or at its limit"
        )
    Reservation(context_of(visit.site.app), rows[0]).move(name)
    return name
