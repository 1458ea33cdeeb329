"""A batch that was acknowledged and has to be read again: its jobs are in history.

A sink acknowledges a batch in the step that stores its outputs. A query with state, such as a window or a join, whose
driver dies before its own log has that batch, computes the batch once more from the state before it; what it writes is
there already, yet its state needs the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.query import PAGE
from stanchion.streams.state import between

KEPT = 3600.0
"""Seconds for which a queue must keep history for a batch to be read again from there."""


def keeps_history(store: Store, queue: str) -> bool:
    """Tell whether the finished jobs of a queue can be read again after a restart."""
    return any(settings.history_ttl >= KEPT for settings in store.queues([queue]))


def finished_rows(store: Store, queue: str, token: str, first: str | None, last: str | None) -> Iterator[JobRow]:
    """Give the jobs that were committed under a token, with ids from `first` to `last`, by their ids, as reserved."""
    done = Condition("queue", "=", queue), Condition("state", "=", JobState.DONE.value)
    query = Query("history", (*done, Condition("token", "=", token), *between(first, last)), order="id", limit=PAGE)
    for page in pages(store, query):
        for row in page:
            yield row._replace(state=JobState.RUNNING.value, finished_at=None, result=None)
