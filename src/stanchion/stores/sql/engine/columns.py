"""Columns and conditions shared by several statements."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    and_,
    bindparam,
    cast,
    false,
    literal_column,
    null,
    or_,
)

from stanchion.stores.fields.jobs import LIVE, Field, Kind, Of
from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.sql.elements import AnyColumn, AnyElement, AnyType
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS, HELD_COLUMNS, ID_COLUMNS, history, jobs

# Written into the SQL as literals: with a parameter, a planner can't prove that a partial index fits.
QUEUED: ColumnElement[str] = literal_column("'queued'")
RUNNING: ColumnElement[str] = literal_column("'running'")

RUNS: ColumnElement[bool] = jobs.c.state.op("IN", is_comparison=True)(literal_column("('running', '')"))
"""The job, found by its id or its lease, is running. The spelling differs from RUNNING on purpose: a planner that can
prove that the partial index of running jobs fits may read all of it, entries of removed jobs included."""

BY_WORKER: ColumnElement[bool] = and_(jobs.c.state == RUNNING, jobs.c.lease_until.is_(None))
"""The job is held by the heartbeats of its `worker`. A lease decides alone, whatever name stands there."""


def param(name: str, kind: AnyType | type[AnyType] | None = None) -> AnyElement:
    """Return a parameter."""
    return bindparam(name, type_=kind)


def id_as_text(column: AnyElement) -> ColumnElement[str]:
    """Return a column of ids as texts: a database may keep ids as UUIDs."""
    return cast(column, String(36))


def as_integer(number: AnyElement) -> ColumnElement[int]:
    """Return a number as an integer of 64 bits, such as the microseconds of a product of seconds."""
    return cast(number, BigInteger)


def null_of(kind: AnyType) -> AnyElement:
    """Return a null with a type: in a union, a column takes the type of its first query."""
    return cast(null(), kind)


def live_row() -> list[AnyElement]:
    """Return the columns of a live job, a prefix of JobRow."""
    return [_text_id(jobs.c[name]) for name in LIVE_COLUMNS]


def claimed_row() -> list[AnyElement]:
    """Return the columns of a live job that a claim returns, a prefix of JobRow."""
    return live_row()[: len(CLAIMED_COLUMNS)]


def held_row() -> list[AnyElement]:
    """Return the columns of a live job with its holds and its position in a flow."""
    return [_text_id(jobs.c[name]) for name in HELD_COLUMNS]


def is_letter() -> ColumnElement[bool]:
    """Return the condition that a live job is an unreserved dead letter; see `rules.lifecycle.dead_letters`."""
    in_queue = or_(jobs.c.state == QUEUED, jobs.c.state == literal_column("'waiting'"))
    return and_(in_queue, jobs.c.dead_from.is_not(None))


def in_time(now: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that the lease of a running job has not run out."""
    return or_(jobs.c.lease_until.is_(None), jobs.c.lease_until > now)


def under_token() -> ColumnElement[bool]:
    """Return the condition that a job of `queue` runs under `token`."""
    mine = jobs.c.queue == param("queue", String), jobs.c.token == param("token", String)
    return and_(*mine, jobs.c.state == RUNNING)


def finished_row() -> list[AnyElement]:
    """Return the columns of a finished job in the order of JobRow."""
    missing = {field.name: _missing(field) for field in LIVE if field.of is Of.LIVE} | {"rank": history.c.priority}
    return [missing[name] if name in missing else _text_id(history.c[name]) for name in JobRow._fields]


def _missing(field: Field) -> AnyElement:
    """Return a finished job's expression in place of a field of live jobs."""
    if field.default is None:
        return null_of(BigInteger() if field.kind is Kind.MICROS else String())
    return false() if field.kind is Kind.FLAG else literal_column(str(field.default))


def _text_id(column: AnyColumn) -> AnyElement:
    return id_as_text(column).label(column.name) if column.name in ID_COLUMNS else column
