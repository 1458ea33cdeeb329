"""Lists of jobs: one page by a cursor, and how many match, up to a bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from stanchion.context.context import Context
from stanchion.jobs.job import Job
from stanchion.stores.fields.jobs import DEATH, FIELDS
from stanchion.stores.letters import ByHome
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Query
from stanchion.stores.rules.lifecycle.jobs import state_of
from stanchion.stores.rules.query import holds_text

SHOWN: Final = 50
"""Jobs of one page."""

COUNTED: Final = 10_000
"""Maximum number of matching jobs counted."""

LOOKED_AT: Final = 250
"""Jobs that are looked at together for an error."""

PAGES: Final = 3
"""How often, for one page."""

COLUMNS: Final = tuple(
    field.name for field in FIELDS if field.listed or field.name in ("rank", "errors", "progress", *DEATH)
)
"""Columns of a job in a list; the payload is left out."""

_ERRORS: Final = COLUMNS.index("errors")


SEARCHED: Final = 200_000
"""Maximum number of jobs scanned for one page of a text search."""

SEARCH_SECONDS: Final = 2.0
"""Maximum number of seconds spent on one page of a text search."""

_AT_ONCE: Final = 2000
"""Jobs that a search reads together, once few of them match."""


class JobPage(NamedTuple):
    """Some jobs, and the cursor of those after them.

    `looked_at`: the jobs that a search for text has read; `skipped_chunks`: the chunks among them whose contents it has
    passed over.
    """

    jobs: list[Job]
    next: str | None
    looked_at: int | None = None
    skipped_chunks: int = 0


def page_of(
    context: Context,
    store: Store,
    query: Query,
    now: int,
    after: str | None,
    limit: int = SHOWN,
) -> JobPage:
    """Read one page of a query."""
    if query.text is not None:
        return _page_of_text(context, store, query, now, after, limit)
    found = ByHome(store).select(replace(query, columns=COLUMNS, limit=limit, after=after))
    rows = [_row(values) for values in found.rows]
    return JobPage([Job(context, row, state_of(row, now)) for row in rows], found.next)


def jobs_of(context: Context, store: Store, ids: Sequence[str], now: int) -> list[Job]:
    """Return the jobs that still exist, in this order."""
    rows = store.fetch(ids)
    return [Job(context, rows[one], state_of(rows[one], now)) for one in ids if one in rows]


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


def _page_of_text(context: Context, store: Store, query: Query, now: int, after: str | None, limit: int) -> JobPage:
    """Search newest first, up to SEARCHED jobs or SEARCH_SECONDS; the cursor continues from there.

    A store would read until it has found enough: the whole history, for a text that never occurs.
    """
    plain = replace(query, text=None, columns=(*COLUMNS, "payload"))
    deadline, looked, skipped, size = time.monotonic() + SEARCH_SECONDS, 0, 0, limit
    jobs: list[Job] = []
    text, letters_too = query.text or "", ByHome(store)
    while True:
        found = letters_too.select(replace(plain, limit=size, after=after))
        hits = [place for place, row in enumerate(found.rows) if holds_text(row[-1], row[_ERRORS], text)]
        if len(jobs) + len(hits) > limit:  # the cursor must follow the last job shown
            size = hits[limit - len(jobs) - 1] + 1
            continue
        rows = [_row(found.rows[place]) for place in hits]
        jobs += [Job(context, row, state_of(row, now)) for row in rows]
        chunks = sum(isinstance(row[-1], bytes) for row in found.rows)
        skipped += chunks - sum(isinstance(found.rows[place][-1], bytes) for place in hits)
        looked, after = looked + len(found.rows), found.next
        if after is None or len(jobs) >= limit or looked >= SEARCHED or time.monotonic() >= deadline:
            return JobPage(jobs, after, looked, skipped)
        size = min(_AT_ONCE, 2 * size)


def count(store: Store, query: Query) -> int | None:
    """Count the jobs of a query: exactly up to COUNTED, one more if there are more; None for a search of text.

    To count what holds a text, each job would have to be read.
    """
    if query.text is not None:
        return None
    return len(ByHome(store).select(replace(query, columns=("id",), limit=COUNTED + 1)).rows)


def _row(values: Sequence[Any]) -> JobRow:
    """Return a job from the columns of a list; only a text search reads payloads too."""
    return JobRow(**{"payload": "", **dict(zip((*COLUMNS, "payload"), values, strict=False))})
