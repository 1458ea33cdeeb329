"""A batch that was acknowledged and has to be read again: its jobs are in history.

A sink acknowledges a batch in the step that stores its outputs. A query with state, such as a window or a join, whose
driver dies before its own log has that batch, computes the batch once more from the state before it; what it writes is
there already, yet its state needs the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import Condition, Scan

KEPT = 3600.0
"""Seconds for which a queue must keep history for a batch to be read again from there."""


def keeps_history(store: Store, queue: str) -> bool:
    """Tell whether the finished jobs of a queue can be read again after a restart."""
    return any(settings.history_ttl >= KEPT for settings in store.queues([queue]))


def finished_rows(store: Store, queue: str, token: str, first: str | None, last: str | None) -> Iterator[JobRow]:
    """Give the jobs that were committed under a token, with ids from `first` to `last`, as they were in hand."""
    where = [Condition("queue", "=", queue), Condition("state", "=", JobState.DONE.value)]
    if first is not None:
        where.append(Condition("id", ">=", first))
    if last is not None:
        where.append(Condition("id", "<", str(UUID(int=UUID(last).int + 1))))  # a bound that every store goes by
    for page in store.scan(Scan("history", tuple(where))):
        for row in page:
            if row.token == token:
                yield row._replace(state=JobState.RUNNING.value, finished_at=None, result=None)
