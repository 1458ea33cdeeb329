"""Columns and conditions that several statements share."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    String,
    and_,
    bindparam,
    cast,
    false,
    func,
    literal,
    literal_column,
    null,
    or_,
)

from stanchion.stores.rules.dead_letters import MARK
from stanchion.stores.sql.engine.schema import FIELDS, HELD_COLUMNS, LIVE_COLUMNS, history, jobs

# Written into the SQL, not passed: only so can a planner see that a partial index fits.
QUEUED: ColumnElement[str] = literal_column("'queued'")
RUNNING: ColumnElement[str] = literal_column("'running'")

RUNS: ColumnElement[bool] = jobs.c.state.op("IN", is_comparison=True)(literal_column("('running', '')"))
"""That a job found by its id or its lease is running. Not spelled as RUNNING: so no planner can prove that the partial
index of running jobs fits, and read all of that, entries of jobs that are gone too."""


def param(name: str, kind: Any = None) -> ColumnElement[Any]:
    """Return a parameter."""
    return bindparam(name, type_=kind)


def live_row() -> list[ColumnElement[Any]]:
    """Return the columns of a live job, in the order of JobRow as far as they go."""
    return [_text_id(jobs.c[name]) for name in LIVE_COLUMNS]


def held_row() -> list[ColumnElement[Any]]:
    """Return the columns of a live job that tell what it holds, and where it stands in a flow."""
    return [_text_id(jobs.c[name]) for name in HELD_COLUMNS]


def is_letter() -> ColumnElement[bool]:
    """Return the condition that a live job is a dead letter that nobody has reserved; see `rules.dead_letters`."""
    own_id = literal(f"%{MARK}") + cast(jobs.c.id, String(36)) + literal('"%')
    in_queue = or_(jobs.c.state == QUEUED, jobs.c.state == literal_column("'waiting'"))
    return and_(in_queue, func.coalesce(jobs.c.headers, "").like(own_id))


def finished_row() -> list[ColumnElement[Any]]:
    """Return the columns of a finished job in the order of JobRow."""
    missing: dict[str, ColumnElement[Any]] = {
        "lease_until": cast(null(), BigInteger),
        "cancel_requested": false(),
        "held": literal_column("0"),
        "permit": cast(null(), String),
        "waits_for": cast(null(), String),
        "waits_since": cast(null(), BigInteger),
    }
    return [missing[name] if name in missing else _text_id(history.c[name]) for name in FIELDS]


def _text_id(column: Column[Any]) -> ColumnElement[Any]:
    if column.name in {"id", "origin"}:
        return cast(column, String(36)).label(column.name)
    return column
