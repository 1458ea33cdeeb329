"""Reading an acknowledged batch again, from history.

A sink acknowledges a batch in the same step that stores its outputs. If the driver of a stateful query (with a window
or a join) dies before its log has that batch, the query computes it again from its previous state. Its outputs are
stored already, but its state needs the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.query import PAGE
from stanchion.streams.state import between

KEPT = 3600.0
"""Seconds of history that a queue must keep for a batch to be read again from there."""


def keeps_history(store: Store, queue: str) -> bool:
    """Return whether the finished jobs of a queue can be read again after a restart."""
    return any(settings.kept_at_least >= KEPT for settings in store.queues([queue]))


def finished_rows(store: Store, queue: str, token: str, first: str | None, last: str | None) -> Iterator[JobRow]:
    """Yield the jobs committed under a token, with ids from `first` to `last`, in id order, as if still reserved."""
    done = Condition("queue", "=", queue), Condition("state", "=", JobState.DONE.value)
    query = Query("history", (*done, Condition("token", "=", token), *between(first, last)), order="id", limit=PAGE)
    for page in pages(store, query):
        for row in page:
            yield row._replace(state=JobState.RUNNING.value, finished_at=None, result=None)
