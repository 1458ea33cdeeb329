"""Reading jobs: by id, by the conditions of a query in pages, and queries split into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from stanchion.stores.records import calls
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Horizon, Page, Query
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.rules.capacity.slots import held_slots
from stanchion.stores.rules.query import ORDERED, checked, cursor, cut, cut_off, value_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.reading import selection
from stanchion.stores.sql.rows.contents import row_from, with_contents
from stanchion.stores.sql.rows.jobs import Jobs, is_id

SCAN_SECONDS = 120.0
"""Seconds for a statement that may read the whole table, to find a few jobs or to split a query."""


class ReadsJobs(Protocol):
    """Reads jobs; see the verbs of these names."""

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]: ...

    def select(self, query: Query) -> Page: ...

    def partition(self, query: Query, parts: int) -> list[Query]: ...


class Queries:
    """Reads jobs."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database, self._dialect, self._jobs = database, database.dialect, jobs

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        wanted = [one for one in ids if is_id(one)]

        def work(run: Runner) -> dict[str, JobRow]:
            # History first, live jobs second: a job that is re-driven between the two reads is found at least once, and
            # one that has just finished is read again below.
            live, finished = self._jobs.read(run, wanted), self._jobs.finished(run, wanted)
            if len(live) + len(finished) < len(ids):
                live |= self._jobs.read(run, wanted)
            return finished | live

        return self._database.read(work)

    def select(self, query: Query) -> Page:
        slot = value_of(checked(query), "holds")
        if slot is None or slot.kind != SEMAPHORE:
            return self._page(query)
        # The statement finds jobs that name the semaphore and hold any slot; the rows say which slots they hold.
        found: list[JobRow] = []
        after = query.after
        while True:
            page = self._page(replace(query, columns=(), after=after))
            found += [row for row in page.rows if slot in held_slots(row)]
            if page.next is None or len(found) >= query.limit:
                return cut_off(found, query)
            after = page.next

    def _page(self, query: Query) -> Page:
        shape = selection.shape_of(query)

        horizon: Horizon | None = None

        def work(run: Runner) -> list[Row]:
            nonlocal horizon
            horizon = self._horizon(run) if query.horizon else None
            letters = self._letter_queues(run, query) if shape.seeks_letters or shape.letters else []
            if shape.letters and not letters:
                return []
            statement = selection.page(self._dialect, shape, letters=bool(letters) and shape.seeks_letters)
            given = {**selection.params_of(self._dialect, query), "letters": self._dialect.listed(letters or ("",))}
            return [] if statement is None else run.rows(statement, given)

        scans = query.order == "id" and any(map(shape.walks, shape.tables))
        rows = self._database.read(work, SCAN_SECONDS if scans else calls.CALL_SECONDS)
        more = None
        if len(rows) == query.limit:
            names = shape.columns or JobRow._fields
            more = cursor([rows[-1][names.index(name)] for name in ORDERED[query.order]])
        if query.columns:
            found = self._dialect.fitted(query.columns, [row[: len(query.columns)] for row in rows])
            return Page(with_contents(query.columns, found), more, horizon)
        return Page(list(map(row_from, rows)), more, horizon)

    def _horizon(self, run: Runner) -> Horizon:
        """Return the clock, and the open transactions if the database names them: read in this order, before jobs."""
        now = self._database.clock(run)
        if self._dialect.writers is None:
            return Horizon(now)
        return Horizon(now, frozenset(name for (name,) in run.rows(self._dialect.writers)))

    def _letter_queues(self, run: Runner, query: Query) -> list[str]:
        """Return the queues that may have dead letters."""
        names = {row[0] for row in run.rows(selection.LETTER_QUEUES)}
        queue = value_of(query, "queue")
        return sorted(names if queue is None else names & {queue})

    def partition(self, query: Query, parts: int) -> list[Query]:
        shape = selection.shape_of(checked(query))
        if parts < 2 or not shape.tables:
            return [query]
        statement = selection.firsts(self._dialect, shape)
        given: dict[str, object] = {**selection.params_of(self._dialect, query), "parts": parts}
        rows = self._database.read(lambda run: run.rows(statement, given), SCAN_SECONDS)
        return cut(query, (first for (first,) in rows)) if rows else [query]
