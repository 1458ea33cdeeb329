"""Reading whole jobs in pages whose length follows the size of payloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Page, Query


class Selects(Protocol):
    """A store, or another reader of jobs."""

    def select(self, query: Query) -> Page:
        """Return a page of a query."""


def pages_by_size(store: Selects, query: Query, most: int, characters: int = 8_000_000) -> Iterator[list[JobRow]]:
    """Yield the non-empty pages of a query for whole jobs; the first one is of its limit.

    The others have up to `most` jobs, and less where payloads are large: a page should not exceed `characters`.
    """
    page = store.select(query)
    while page.rows:
        yield page.rows
        if page.next is None:
            return
        fitting = characters * len(page.rows) // sum(1 + len(row.payload) for row in page.rows)
        page = store.select(query.following(page.next, max(1, min(most, fitting))))
