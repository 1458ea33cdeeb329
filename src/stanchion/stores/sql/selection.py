"""The statement of a query, one for each shape of queries, so that each is built and compiled once.

A page is one statement, of one moment: the jobs of live and finished ones that come first in the order, together.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    Text,
    and_,
    case,
    cast,
    false,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    true,
    union,
    union_all,
)

from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Of, Order, Query
from stanchion.stores.rules.query import ORDERED, behind, states_in
from stanchion.stores.rules.slots import HOLDER_BOOST, order_of, semaphore_of
from stanchion.stores.sql.engine.columns import QUEUED, RUNNING, finished_row, is_letter, live_row, param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import FIELDS, history, jobs, queues
from stanchion.stores.sql.semaphores import quoted

_OWN_INDEX = {
    jobs.name: frozenset({"token", "flow", "order_key", "waits_for", "holds", "holds_key"}),
    history.name: frozenset({"flow"}),
}
"""Conditions that few jobs meet, which an index finds."""


class Shape(NamedTuple):
    """What the statement of a query depends on; all else are its parameters. `letters`: dead letters count as dead."""

    of: Of
    where: tuple[tuple[str, str], ...]
    states: frozenset[JobState] | None
    text: bool
    order: Order
    further: bool
    columns: tuple[str, ...]

    @property
    def tables(self) -> list[Table]:
        """The tables in which jobs of the query can be."""
        live = self.of != "history" and (self.states is None or not self.states.isdisjoint(_SEEN_LIVE))
        final = self.of != "live" and (self.states is None or any(state.final for state in self.states))
        return [table for table, wanted in ((jobs, live), (history, final)) if wanted]

    @property
    def seeks_letters(self) -> bool:
        """True where dead letters are asked for, and not all that is queued."""
        asked = self.states or frozenset()
        return self.of != "history" and JobState.DEAD in asked and not asked >= _IN_QUEUE

    @property
    def of_letters_alone(self) -> bool:
        """True where of all live jobs only dead letters are asked for."""
        return self.seeks_letters and not (self.states or frozenset()) & (_IN_QUEUE | {JobState.RUNNING})

    def walks(self, table: Table) -> bool:
        """Tell whether jobs are found by a walk in their order, and not by an index of the conditions."""
        return _OWN_INDEX[table.name].isdisjoint(field for field, _ in self.where)


_IN_QUEUE = frozenset({JobState.SCHEDULED, JobState.READY, JobState.WAITING})
_SEEN_LIVE = _IN_QUEUE | {JobState.RUNNING, JobState.DEAD}


def shape_of(query: Query) -> Shape:
    """Return the shape of a query."""
    where = tuple((_kind(one.field, one.value), one.op) for one in query.where if one.field != "state")
    columns = query.columns and tuple(dict.fromkeys((*query.columns, *ORDERED[query.order])))
    return Shape(
        query.of, where, states_in(query), query.text is not None, query.order, query.after is not None, columns
    )


def _kind(field: str, value: Any) -> str:
    return "holds_key" if field == "holds" and semaphore_of(value) is None else field


def params_of(query: Query) -> dict[str, Any]:
    """Return the parameters of a query."""
    given: dict[str, Any] = {"most": query.limit, "text": query.text}
    conditions = (one for one in query.where if one.field != "state")
    for n, (field, op, value) in enumerate(conditions):
        if field != "holds":
            given[f"is{n}"] = json.dumps(value) if op == "in" else value
        elif (semaphore := semaphore_of(value)) is not None:
            given[f"is{n}"] = f"%{quoted(semaphore)}%"
        else:
            given[f"queue{n}"], given[f"is{n}"] = order_of(value)
    return given | {f"behind_{name}": value for name, value in zip(ORDERED[query.order], behind(query), strict=False)}


@cache
def page(dialect: Dialect, shape: Shape, *, letters: bool) -> Select[Any] | None:
    """Return the statement of a page; None where no job can meet the query.

    `letters`: there are queues with dead letters, in the parameter of this name, and these are sought.
    """
    tables = [table for table in shape.tables if table is history or not shape.of_letters_alone]
    several = len(tables) + 2 * letters > 1
    arms = [_arm(dialect, shape, table, _state(dialect, shape, table), typed=several) for table in tables]
    if letters:
        arms += [_arm(dialect, shape, jobs, _letters(dialect, state), typed=True) for state in ("queued", "waiting")]
    if len(arms) < 2:
        return arms[0] if arms else None
    found = union_all(*(select(arm.subquery()) for arm in arms)).subquery("found")
    columns: dict[str, ColumnElement[Any]] = {name: found.c[name] for name in ORDERED[shape.order]}
    columns["id"] = dialect.by_bytes(columns["id"])
    return select(found).order_by(*_ordered(columns, shape.order)).limit(param("most", Integer))


def _arm(dialect: Dialect, shape: Shape, table: Table, state: ColumnElement[bool], *, typed: bool) -> Select[Any]:
    """Return the search in one table. `typed`: the columns are as those of the other table, to be put together."""
    found = select(*_columns(shape, table, typed=typed)).where(_met(dialect, shape, table), state)
    if shape.further:
        found = found.where(_behind(table, shape.order))
    columns: dict[str, ColumnElement[Any]] = {name: table.c[name] for name in ORDERED[shape.order]}
    if not shape.walks(table):  # nor may it look as if a walk along the ids would do
        columns["id"] = cast(columns["id"], String(36))
    return found.order_by(*_ordered(columns, shape.order)).limit(param("most", Integer))


def _ordered(columns: Mapping[str, ColumnElement[Any]], order: Order) -> list[ColumnElement[Any]]:
    if order == "newest":
        return [columns["id"].desc()]
    return [columns[name].desc() if name == "priority" else columns[name] for name in ORDERED[order]]


def _columns(shape: Shape, table: Table, *, typed: bool) -> list[ColumnElement[Any]]:
    whole = dict(zip(FIELDS, finished_row() if table is history else [*live_row(), *_NEVER], strict=True))
    if shape.columns:
        return [whole[name].label(name) for name in shape.columns]
    return [column.label(name) for name, column in whole.items()] if typed or table is history else live_row()


_NEVER = (cast(null(), BigInteger), cast(null(), Text))
"""When a live job has finished, and its result."""


def _behind(table: Table, order: Order) -> ColumnElement[bool]:
    """Return the condition that a job comes behind the cursor."""
    (column, value), *rest = ((table.c[name], param(f"behind_{name}", table.c[name].type)) for name in ORDERED[order])
    if order == "newest":
        return column < value
    if not rest:
        return column > value
    if order == "due":
        return or_(column < value, and_(column == value, _later(*rest)))
    return and_(column >= value, _later((column, value), *rest))  # the first part is what an index goes by


def _later(*pairs: tuple[ColumnElement[Any], ColumnElement[Any]]) -> ColumnElement[bool]:
    """Return the condition that two columns together come behind two values."""
    (first, first_value), (second, second_value) = pairs
    return or_(first > first_value, and_(first == first_value, second > second_value))


# -- conditions


def met(dialect: Dialect, shape: Shape, table: Table) -> ColumnElement[bool]:
    """Return the condition that a job is one of those of a query."""
    sought = [_state(dialect, shape, table)]
    if table is jobs and shape.seeks_letters:
        sought.append(is_letter())
    return and_(_met(dialect, shape, table), or_(*sought))


def _met(dialect: Dialect, shape: Shape, table: Table) -> ColumnElement[bool]:
    conditions = [_condition(dialect, table, field, op, n) for n, (field, op) in enumerate(shape.where)]
    if shape.text:
        wanted = param("text", Text)
        conditions.append(or_(*(dialect.position(table.c[name], wanted) > 0 for name in ("payload", "errors"))))
    if shape.order == "due":
        conditions.append(table.c.state == QUEUED)
    return and_(true(), *conditions)


def _condition(dialect: Dialect, table: Table, field: str, op: str, n: int) -> ColumnElement[bool]:
    if table is history and field in _OF_LIVE:
        return _NEVER_MET
    match field:
        case "finished_at" if table is jobs:
            return _NEVER_MET
        case "token" if table is jobs:
            in_time = or_(jobs.c.lease_until.is_(None), jobs.c.lease_until > _moment(dialect))
            return and_(jobs.c.state == RUNNING, jobs.c.token == param(f"is{n}", String), in_time)
        case "flow":
            root, by_bytes = param(f"is{n}", String), dialect.by_bytes(table.c.flow)
            return and_(table.c.flow.is_not(None), by_bytes >= root + ":", by_bytes < root + ";")
        case "waits_for":
            return and_(jobs.c.waits_for.is_not(None), jobs.c.waits_for == param(f"is{n}", String))
        case "order_key" if table is jobs:
            return and_(jobs.c.order_key.is_not(None), jobs.c.order_key == param(f"is{n}", String))
        case "holds":  # or somebody of a like name, which the rows tell
            return and_(jobs.c.held > literal_column("0"), jobs.c.limits.like(param(f"is{n}", Text), escape="|"))
        case "holds_key":
            of_key = and_(jobs.c.queue == param(f"queue{n}", String), jobs.c.order_key == param(f"is{n}", String))
            return and_(jobs.c.held > literal_column("0"), of_key)
    column = own_priority(table) if field == "priority" else table.c[field]
    if op == "in":
        return column.in_(dialect.values(f"is{n}", table.c[field].type))
    if field in ("queue", "task", "tenant") and op != "=":
        column = dialect.by_bytes(column)
    compared: ColumnElement[bool] = _COMPARE[op](column, param(f"is{n}", table.c[field].type))
    return compared


_OF_LIVE = frozenset({"waits_for", "holds", "holds_key"})
_NEVER_MET: ColumnElement[bool] = literal_column("1 = 0")
_COMPARE: dict[str, Any] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def own_priority(table: Table) -> ColumnElement[Any]:
    """Return the priority without what a job gains by a slot that it holds."""
    own = table.c.priority
    return case((own > HOLDER_BOOST // 2, own - HOLDER_BOOST), else_=own)


def seen_state(dialect: Dialect, table: Table) -> ColumnElement[Any]:
    """Return the state that the outside sees."""
    if table is history:
        return history.c.state
    due = case((jobs.c.run_at <= _moment(dialect), JobState.READY.value), else_=JobState.SCHEDULED.value)
    return case((is_letter(), JobState.DEAD.value), (jobs.c.state == QUEUED, due), else_=jobs.c.state)


def _moment(dialect: Dialect) -> ColumnElement[int]:
    """Return the clock, asked once for a statement and not for each row."""
    return select(dialect.now).scalar_subquery()


def _state(dialect: Dialect, shape: Shape, table: Table) -> ColumnElement[bool]:
    """Return the condition that a job is in one of the states, but for dead letters that are sought apart."""
    states = shape.states
    if states is None:
        return true()
    if table is history:
        return or_(false(), *(history.c.state == state.value for state in sorted(states) if state.final))
    queued = jobs.c.state == QUEUED
    parts: list[ColumnElement[bool]] = []
    if states >= {JobState.SCHEDULED, JobState.READY}:
        parts.append(queued)
    elif JobState.SCHEDULED in states:
        parts.append(and_(queued, jobs.c.run_at > _moment(dialect)))
    elif JobState.READY in states:
        parts.append(and_(queued, jobs.c.run_at <= _moment(dialect)))
    if JobState.WAITING in states:
        parts.append(jobs.c.state == literal_column("'waiting'"))
    if JobState.DEAD not in states or shape.seeks_letters:
        parts = [and_(part, not_(is_letter())) for part in parts]
    if JobState.RUNNING in states:
        parts.append(jobs.c.state == RUNNING)
    return or_(false(), *parts)


LETTER_QUEUES = union(
    select(queues.c.name).where(queues.c.letters == true()),
    select(queues.c.dead_letter).where(queues.c.dead_letter.is_not(None)),
)
"""Where dead letters are: few jobs are to be looked at for them."""


def _letters(dialect: Dialect, state: str) -> ColumnElement[bool]:
    """Return the condition that a job is a dead letter in a stored state: by its index, not through all live jobs."""
    here = and_(jobs.c.queue.in_(dialect.values("letters", jobs.c.queue.type)), is_letter())
    in_state = and_(jobs.c.state == literal_column(f"'{state}'"), here)
    return and_(in_state, jobs.c.waits_for.is_not(None)) if state == "waiting" else in_state


# -- parts


def ids(dialect: Dialect, shape: Shape) -> Any:
    """Return the table of all ids that a query asks for, as its column `id`."""
    found = [select(table.c.id).where(met(dialect, shape, table)) for table in shape.tables]
    return (union_all(*found) if len(found) > 1 else found[0]).subquery("found")


@cache
def firsts(dialect: Dialect, shape: Shape) -> Select[Any]:
    """Return the search for the first ids of equal parts."""
    found = ids(dialect, shape)
    part = func.ntile(param("parts", Integer)).over(order_by=found.c.id).label("part")
    dealt = select(cast(found.c.id, String(36)).label("id"), part).subquery("dealt")
    return select(func.min(dealt.c.id)).group_by(dealt.c.part).order_by(func.min(dealt.c.id))
