"""History deleted by its age."""

from __future__ import annotations

from stanchion.context.queues.settings import settings_of
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import SECOND, JobRef
from stanchion.stores.records.query import Condition, Query

_AT_ONCE = 500


def purge(store: Store, queue: str, older_than: float | None = None) -> int:
    """Delete finished jobs that ended over `older_than` seconds ago (None: the queue's history_ttl).

    Return how many were deleted, in rounds; those that end meanwhile stay.
    """
    age = settings_of(store, queue).history_ttl if older_than is None else older_than
    newest = max(0, store.now() - int(age * SECOND))
    old = Condition("queue", "=", queue), Condition("finished_at", "<=", newest)
    query = Query("history", old, order="finished", limit=_AT_ONCE, columns=("id", "finished_at"))
    return sum(sum(store.delete([JobRef(*row) for row in rows])) for rows in pages(store, query))
