"""Queues emptied of the jobs that have not begun."""

from __future__ import annotations

from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobRef, JobState
from stanchion.stores.records.query import Condition, Query

_AT_ONCE = 500
_NOT_BEGUN = (JobState.SCHEDULED.value, JobState.READY.value, JobState.WAITING.value)


def clear_queue(store: Store, queue: str) -> int:
    """Delete the jobs of a queue that have not begun and were stored before now; return their number.

    Jobs of flows are cancelled instead, so that their flows end.
    """
    where = (
        Condition("queue", "=", queue),
        Condition("state", "in", _NOT_BEGUN),
        Condition("enqueued_at", "<=", store.now()),
    )
    query = Query("live", where, order="id", limit=_AT_ONCE, columns=("id", "flow_root"))
    gone = 0
    for rows in pages(store, query):
        alone = [JobRef(job_id, None) for job_id, flow in rows if flow is None]
        members = [job_id for job_id, flow in rows if flow is not None]
        gone += sum(store.delete(alone)) if alone else 0
        gone += store.cancel(members).count(JobState.CANCELLED) if members else 0
    return gone
