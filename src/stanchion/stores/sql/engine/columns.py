"""Columns and conditions shared by several statements."""

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
    literal,
    literal_column,
    null,
    or_,
)

from stanchion.stores.rules.dead_letters import MARK
from stanchion.stores.sql.engine.schema import (
    CLAIMED_COLUMNS,
    FIELDS,
    HELD_COLUMNS,
    ID_COLUMNS,
    LIVE_COLUMNS,
    history,
    jobs,
)

# Written into the SQL as literals: with a parameter, a planner can't prove that a partial index fits.
QUEUED: ColumnElement[str] = literal_column("'queued'")
RUNNING: ColumnElement[str] = literal_column("'running'")

RUNS: ColumnElement[bool] = jobs.c.state.op("IN", is_comparison=True)(literal_column("('running', '')"))
"""The job, found by its id or its lease, is running. The spelling differs from RUNNING on purpose: a planner that can
prove that the partial index of running jobs fits may read all of it, entries of removed jobs included."""

BY_WORKER: ColumnElement[bool] = and_(jobs.c.state == RUNNING, jobs.c.lease_until.is_(None))
"""The job is held by the heartbeats of its `worker`. A lease decides alone, whatever name stands there."""


def param(name: str, kind: Any = None) -> ColumnElement[Any]:
    """Return a parameter."""
    return bindparam(name, type_=kind)


def live_row() -> list[ColumnElement[Any]]:
    """Return the columns of a live job, a prefix of JobRow."""
    return [_text_id(jobs.c[name]) for name in LIVE_COLUMNS]


def claimed_row() -> list[ColumnElement[Any]]:
    """Return the columns of a live job that a claim returns, a prefix of JobRow."""
    return live_row()[: len(CLAIMED_COLUMNS)]


def held_row() -> list[ColumnElement[Any]]:
    """Return the columns of a live job that say what it holds, and its position in a flow."""
    return [_text_id(jobs.c[name]) for name in HELD_COLUMNS]


def is_letter() -> ColumnElement[bool]:
    """Return the condition that a live job is an unreserved dead letter; see `rules.dead_letters`."""
    own_id = literal(f"%{MARK}") + cast(jobs.c.id, String(36)) + literal('"%')
    in_queue = or_(jobs.c.state == QUEUED, jobs.c.state == literal_column("'waiting'"))
    return and_(in_queue, jobs.c.headers.is_not(None), jobs.c.headers.like(own_id))


def in_time(now: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that the lease of a running job has not run out."""
    return or_(jobs.c.lease_until.is_(None), jobs.c.lease_until > now)


def under_token() -> ColumnElement[bool]:
    """Return the condition that a job of `queue` runs under `token`."""
    mine = jobs.c.queue == param("queue", String), jobs.c.token == param("token", String)
    return and_(*mine, jobs.c.state == RUNNING)


def finished_row() -> list[ColumnElement[Any]]:
    """Return the columns of a finished job in the order of JobRow."""
    missing: dict[str, ColumnElement[Any]] = {
        "rank": history.c.priority,
        "lease_until": cast(null(), BigInteger),
        "cancel_requested": false(),
        "slots_held": literal_column("0"),
        "order_hold": cast(null(), String),
        "slots_hold": cast(null(), String),
        **dict.fromkeys(("waits_kind", "waits_queue", "waits_name"), cast(null(), String)),
        "waits_since": cast(null(), BigInteger),
    }
    return [missing[name] if name in missing else _text_id(history.c[name]) for name in FIELDS]


def _text_id(column: Column[Any]) -> ColumnElement[Any]:
    if column.name in ID_COLUMNS:
        return cast(column, String(36)).label(column.name)
    return column
