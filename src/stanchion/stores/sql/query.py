"""Reading jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    Text,
    and_,
    cast,
    literal_column,
    not_,
    or_,
    select,
    true,
    union,
)

from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import Find
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.columns import finished_row, is_letter, live_row, param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import history, jobs, queues
from stanchion.stores.sql.jobs import is_id

_STORED = {JobState.SCHEDULED: "queued", JobState.READY: "queued"}


class Looking(SqlBase):
    """Finds jobs."""

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        wanted = [one for one in ids if is_id(one)]

        def work(run: Runner) -> dict[str, JobRow]:
            # History first and live jobs over it: a job on its way from one to the other is seen in one at least
            # when it is re-driven, and read again below when it has just finished.
            live, finished = self.jobs.read(run, wanted), self.jobs.finished(run, wanted)
            if len(live) + len(finished) < len(ids):
                live |= self.jobs.read(run, wanted)
            return finished | live

        return self.database.read(work)

    def find(self, query: Find) -> list[JobRow]:
        params = {
            "queue": query.queue,
            "task": query.task,
            "tenant": query.tenant,
            "flow": query.flow,
            "since": query.since,
            "until": query.until,
            "text": query.text,
            "after": query.after,
            "most": query.limit,
        }
        given = frozenset(name for name, value in params.items() if value is not None)
        live = frozenset(state for state in query.states if not state.final)
        final = frozenset(state for state in query.states if state.final)
        dead_seen = JobState.DEAD in final and not query.stored

        def work(run: Runner) -> list[JobRow]:
            found: dict[str, JobRow] = {}
            if final or not query.states:
                rows = run.rows(_search(history, self.dialect, given, final, query.stored), params)
                found.update((row[0], JobRow(*row)) for row in rows)
            if live or not query.states:
                rows = run.rows(_search(jobs, self.dialect, given, live, query.stored), params)
                found.update((row[0], JobRow(*row)) for row in rows)
            for queue in self._letter_queues(run, query) if dead_seen else ():
                for state in ("queued", "waiting"):
                    rows = run.rows(_letters(self.dialect, given, state), {**params, "queue": queue})
                    found.update((row[0], JobRow(*row)) for row in rows)
            return sorted(found.values(), key=lambda job: job.id, reverse=True)[: query.limit]

        return self.database.read(work)

    def _letter_queues(self, run: Runner, query: Find) -> list[str]:
        """Return the queues in which dead letters can be."""
        names = {row[0] for row in run.rows(_LETTER_QUEUES)}
        return sorted(names if query.queue is None else names & {query.queue})


@cache
def _search(
    table: Table, dialect: Dialect, given: frozenset[str], states: frozenset[JobState], stored: bool
) -> Select[Any]:
    """Return the search with these conditions; one statement for each set of them, so that each is compiled once."""
    columns = finished_row() if table is history else live_row()
    found = select(*columns).where(*_asked(table, dialect, given))
    if states:
        in_state = _stored_in if stored or table is history else _seen_in
        found = found.where(or_(*(in_state(table, dialect, state) for state in sorted(states))))
    # Those of a flow are found by its index, and not on a walk through all jobs in the order of their ids.
    newest = cast(table.c.id, String(36)) if "flow" in given else table.c.id
    return found.order_by(newest.desc()).limit(param("most", Integer))


@cache
def _letters(dialect: Dialect, given: frozenset[str], state: str) -> Select[Any]:
    """Return the search for the dead letters of a queue in a stored state: by its index, not through all live jobs."""
    in_state = and_(jobs.c.state == literal_column(f"'{state}'"), is_letter())
    if state == "waiting":
        in_state = and_(in_state, jobs.c.waits_for.is_not(None))  # which has an index
    found = select(*live_row()).where(*_asked(jobs, dialect, given | {"queue"}), in_state)
    return found.order_by(cast(jobs.c.id, String(36)).desc()).limit(param("most", Integer))


def _asked(table: Table, dialect: Dialect, given: frozenset[str]) -> list[ColumnElement[bool]]:
    """Return the conditions of a search but for the states."""
    conditions: dict[str, ColumnElement[bool]] = {
        "queue": table.c.queue == param("queue", String),
        "task": table.c.task == param("task", String),
        "tenant": table.c.tenant == param("tenant", String),
        "flow": _begins(dialect.by_bytes(table.c.flow), table.c.flow),
        "since": table.c.enqueued_at >= param("since"),
        "until": table.c.enqueued_at < param("until"),
        "after": table.c.id < param("after", table.c.id.type),
        "text": or_(
            *(dialect.position(column, param("text", Text)) > 0 for column in (table.c.payload, table.c.errors))
        ),
    }
    return [conditions[name] for name in sorted(given - {"most"})]


def _begins(by_bytes: ColumnElement[str], flow: Column[Any]) -> ColumnElement[bool]:
    """Return the condition that a job stands in the flow with the id in parameter `flow`."""
    root = param("flow", String)
    return and_(flow.is_not(None), by_bytes >= root + ":", by_bytes < root + ";")


def _seen_in(table: Table, dialect: Dialect, state: JobState) -> ColumnElement[bool]:
    """Return the condition that a live job is in a state, as the outside sees it."""
    if state is JobState.RUNNING:
        return _stored_in(table, dialect, state)
    return and_(_stored_in(table, dialect, state), not_(is_letter()))


_LETTER_QUEUES = union(
    select(queues.c.name).where(queues.c.letters == true()),
    select(queues.c.dead_letter).where(queues.c.dead_letter.is_not(None)),
)
"""Where dead letters are: few jobs are to be looked at for them."""


def _stored_in(table: Table, dialect: Dialect, state: JobState) -> ColumnElement[bool]:
    stored = table.c.state == _STORED.get(state, state.value)
    if state is JobState.SCHEDULED:
        return stored & (table.c.run_at > dialect.now)
    if state is JobState.READY:
        return stored & (table.c.run_at <= dialect.now)
    return stored
