"""Reading all jobs of an SQL database."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    and_,
    case,
    cast,
    func,
    literal_column,
    select,
)

from stanchion.stores.records.jobs import QUEUED, JobRow
from stanchion.stores.records.query import Scan
from stanchion.stores.rules.query import PAGE, checked, cut
from stanchion.stores.rules.slots import HOLDER_BOOST
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.columns import finished_row, is_letter, live_row, param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.engine.schema import history, jobs

SCAN_SECONDS = 120.0
"""A statement may look at the whole table: to find a few jobs among many, or to cut it into parts."""

Shape = tuple[tuple[str, str], ...]
"""The fields and operators of a scan's conditions: what its statement depends on."""


class Scanning(SqlBase):
    """Gives the jobs of a scan in the order of their ids, each page by a statement of its own."""

    def scan(self, scan: Scan) -> Iterator[list[JobRow]]:
        params: dict[str, Any] = {**self.given_to(scan), "most": PAGE}
        while True:
            page = _page(self.dialect, scan.of, shape_of(scan), further="after" in params)
            rows = [JobRow(*row) for row in self.database.read(partial(_rows, page, params), SCAN_SECONDS)]
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            params["after"] = rows[-1].id

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        params = {**self.given_to(scan), "parts": parts}
        firsts = _firsts(self.dialect, scan.of, shape_of(scan))
        rows = self.database.read(partial(_rows, firsts, params), SCAN_SECONDS) if parts > 1 else []
        return cut(scan, (first for (first,) in rows)) if rows else [scan]

    def given_to(self, scan: Scan) -> dict[str, Any]:
        """Return the parameters of a scan, which is of this moment: a clock that is asked for each row takes long."""
        return {**values_of(checked(scan)), "now": self.database.read(self.clock)}


def _rows(statement: Select[Any], params: dict[str, Any], run: Runner) -> list[Row]:
    return run.rows(statement, params)


def shape_of(scan: Scan) -> Shape:
    """Return what the statement of a scan depends on."""
    return tuple((condition.field, condition.op) for condition in scan.where)


def values_of(scan: Scan) -> dict[str, Any]:
    """Return the parameters of a scan's conditions."""
    return {f"is{n}": json.dumps(value) if op == "in" else value for n, (_, op, value) in enumerate(scan.where)}


def met(dialect: Dialect, of: str, shape: Shape) -> ColumnElement[bool]:
    """Return the condition that a job is one of those of a scan."""
    table = table_of(of)
    return and_(True, *(_condition(dialect, table, field, op, f"is{n}") for n, (field, op) in enumerate(shape)))


def _condition(dialect: Dialect, table: Table, field: str, op: str, name: str) -> ColumnElement[bool]:
    if field == "finished_at" and table is jobs:
        return literal_column("1 = 0")
    column = shown(table).get(field, table.c[field])
    if op == "in":
        return column.in_(dialect.values(name, column.type))
    if field in ("queue", "task", "tenant") and op != "=":
        column = dialect.by_bytes(column)
    compared: ColumnElement[bool] = _COMPARE[op](column, param(name, column.type))
    return compared


_COMPARE: dict[str, Any] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def table_of(of: str) -> Table:
    """Return the table that a scan reads."""
    return jobs if of == "jobs" else history


@cache
def shown(table: Table) -> dict[str, ColumnElement[Any]]:
    """Return the columns whose value is another outside than in the table, at the moment in parameter `now`."""
    own = table.c.priority
    queued = table.c.state == QUEUED
    due = case((table.c.run_at <= param("now"), "ready"), else_="scheduled")
    live = case((is_letter(), "dead"), (queued, due), else_=table.c.state)
    return {
        "priority": case((own > HOLDER_BOOST // 2, own - HOLDER_BOOST), else_=own),
        "state": live if table is jobs else table.c.state,
    }


@cache
def _page(dialect: Dialect, of: str, shape: Shape, *, further: bool) -> Select[Any]:
    table = table_of(of)
    found = select(*(live_row() if of == "jobs" else finished_row())).where(met(dialect, of, shape))
    if further:
        found = found.where(table.c.id > param("after", table.c.id.type))
    return found.order_by(table.c.id).limit(param("most", Integer))


@cache
def _firsts(dialect: Dialect, of: str, shape: Shape) -> Select[Any]:
    """Return the search for the first ids of equal parts."""
    identity: Column[Any] = table_of(of).c.id
    part = func.ntile(param("parts", Integer)).over(order_by=identity).label("part")
    dealt = select(cast(identity, String(36)).label("id"), part).where(met(dialect, of, shape)).subquery()
    return select(func.min(dealt.c.id)).group_by(dealt.c.part).order_by(func.min(dealt.c.id))
