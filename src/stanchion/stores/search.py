"""The conditions of a search, for a store whose database can't check them."""

from __future__ import annotations

from stanchion.stores.records import Find, JobRow
from stanchion.stores.transitions import state_of, stored_state_of


def matches(row: JobRow, query: Find, now: int) -> bool:
    """Tell whether a job is one of those searched for; its queue is not looked at."""
    state = stored_state_of if query.stored else state_of
    return (
        (query.after is None or row.id < query.after)
        and (not query.states or state(row, now) in query.states)
        and (query.task is None or row.task == query.task)
        and (query.tenant is None or row.tenant == query.tenant)
        and (query.flow is None or (row.flow is not None and row.flow.startswith(f"{query.flow}:")))
        and (query.since is None or row.enqueued_at >= query.since)
        and (query.until is None or row.enqueued_at < query.until)
        and (query.text is None or query.text in row.payload or query.text in (row.errors or ""))
    )
