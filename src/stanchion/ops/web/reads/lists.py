"""Lists of jobs: one page by a cursor, and how many match, up to a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from stanchion.context.context import Context
from stanchion.jobs.job import Job
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Query
from stanchion.stores.rules.jobs import state_of

SHOWN: Final = 50
"""Jobs of one page."""

COUNTED: Final = 10_000
"""Matching jobs up to which they are counted."""

LOOKED_AT: Final = 250
"""Jobs that are looked at together for an error."""

PAGES: Final = 3
"""How often, for one page."""

COLUMNS: Final = (
    *("id", "queue", "lane", "state", "priority", "rank", "run_at", "enqueued_at", "task", "headers", "tenant", "key"),
    *("attempts", "failures", "max_attempts", "errors", "worker", "started_at", "finished_at"),
)
"""What a list shows of a job: no payload."""


class JobPage(NamedTuple):
    """Some jobs, and the cursor of those after them."""

    jobs: list[Job]
    next: str | None


def page_of(context: Context, store: Store, query: Query, now: int, after: str | None, limit: int = SHOWN) -> JobPage:
    """Read one page of a query."""
    found = store.select(replace(query, columns=COLUMNS, limit=limit, after=after))
    rows = [_row(values) for values in found.rows]
    return JobPage([Job(context, row, state_of(row, now)) for row in rows], found.next)


def page_of_error(context: Context, store: Store, query: Query, now: int, after: str | None, key: str) -> JobPage:
    """Read jobs of a group of errors: those among the next jobs of a query, up to a few pages of them."""
    jobs: list[Job] = []
    for _ in range(PAGES):
        found = page_of(context, store, query, now, after, LOOKED_AT)
        jobs += [job for job in found.jobs if job.error_group == key]
        after = found.next
        if after is None or len(jobs) >= SHOWN:
            break
    return JobPage(jobs, after)


def count(store: Store, query: Query) -> int | None:
    """Count the jobs of a query: exactly up to COUNTED, one more if there are more; None for a search of text.

    To count what holds a text, each job would have to be read.
    """
    if query.text is not None:
        return None
    return len(store.select(replace(query, columns=("id",), limit=COUNTED + 1)).rows)


def _row(values: Sequence[Any]) -> JobRow:
    return JobRow(**{**dict(zip(COLUMNS, values, strict=True)), "payload": ""})
