"""The default order keys of a queue with `ordered_by`."""

from __future__ import annotations

from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.queues import QueueSettings


def with_order_key(job: NewJob, settings: QueueSettings) -> NewJob:
    """Return a job that enters a queue with the order key that the queue gives to jobs without one."""
    if settings.ordered_by is None or job.order_key is not None or job.tenant is None:
        return job
    return job._replace(order_key=job.tenant)
