"""The statements of queries, built and compiled once per shape of query.

A page is one statement with one snapshot: the first live and finished jobs in the order, merged.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    String,
    Subquery,
    Table,
    Text,
    and_,
    bindparam,
    case,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
    union,
    union_all,
)

from stanchion.stores.fields.jobs import DEATH, KINDS, WAITS, Kind
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import OF_SLOTS, Of, Order, Query
from stanchion.stores.records.slots import SEMAPHORE, Slot
from stanchion.stores.rules.lifecycle.trail import entry_in_trail
from stanchion.stores.rules.query import ORDERED, are_letters, behind, states_in
from stanchion.stores.sql.elements import AnyElement, AnySelect
from stanchion.stores.sql.engine.columns import (
    QUEUED,
    RUNNING,
    finished_row,
    id_as_text,
    in_time,
    is_letter,
    live_row,
    null_of,
    param,
)
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import ID_COLUMNS, history, jobs, queues
from stanchion.stores.sql.limits.semaphores import quoted
from stanchion.stores.sql.rows.jobs import is_id

_OWN_INDEX = {
    jobs.name: frozenset({"token", "flow_root", "order_key", "waits_for", "holds", "holds_key"}),
    history.name: frozenset({"flow_root"}),
}
"""Selective conditions, which an index serves."""


class Shape(NamedTuple):
    """The part of a query that determines its statement; all else are parameters.

    `letters`: only dead letters are queried, also finished ones.
    """

    of: Of
    where: tuple[tuple[str, str], ...]
    states: frozenset[JobState] | None
    text: bool
    order: Order
    further: bool
    columns: tuple[str, ...]
    letters: bool

    @property
    def tables(self) -> list[Table]:
        """The tables that may hold jobs of the query."""
        live = self.of != "history" and (self.states is None or not self.states.isdisjoint(_SEEN_LIVE))
        final = self.of != "live" and (self.states is None or any(state.final for state in self.states))
        return [table for table, wanted in ((jobs, live), (history, final)) if wanted]

    @property
    def seeks_letters(self) -> bool:
        """True if dead letters are queried, but not all queued jobs."""
        asked = self.states or frozenset()
        return self.of != "history" and JobState.DEAD in asked and not asked >= _IN_QUEUE

    @property
    def of_letters_alone(self) -> bool:
        """True if dead letters are the only live jobs that are queried."""
        return self.seeks_letters and not (self.states or frozenset()) & (_IN_QUEUE | {JobState.RUNNING})

    def walks(self, table: Table) -> bool:
        """Return whether jobs are found by a walk in their order, instead of by an index of the conditions."""
        if table is jobs and self.states == _ONLY_RUNNING:
            return False
        return _OWN_INDEX[table.name].isdisjoint(field for field, _ in self.where)


_ONLY_RUNNING = frozenset({JobState.RUNNING})
_IN_QUEUE = frozenset({JobState.SCHEDULED, JobState.READY, JobState.WAITING})
_SEEN_LIVE = _IN_QUEUE | {JobState.RUNNING, JobState.DEAD}


def shape_of(query: Query) -> Shape:
    """Return the shape of a query."""
    where = tuple((_kind(one.field, one.value), one.op) for one in query.where if one.field != "state")
    columns = query.columns and tuple(dict.fromkeys((*query.columns, *ORDERED[query.order])))
    whole = query.of, where, states_in(query), query.text is not None, query.order, query.after is not None
    return Shape(*whole, columns, letters=are_letters(query))


def _kind(field: str, value: object) -> str:
    return "holds_key" if field == "holds" and isinstance(value, Slot) and value.kind != SEMAPHORE else field


def params_of(dialect: Dialect, query: Query) -> dict[str, object]:
    """Return the parameters of a query."""
    given: dict[str, object] = {"most": query.limit, "text": query.text}
    conditions = (one for one in query.where if one.field != "state")
    for n, (field, op, value) in enumerate(conditions):
        if field in ID_COLUMNS and op == "=" and not is_id(value):
            given[f"is{n}"] = None  # equals nothing
        elif field == "waits_for" or (field == "holds" and value.kind != SEMAPHORE):
            given |= {f"kind{n}": value.kind, f"queue{n}": value.queue, f"is{n}": value.name}
        elif field == "holds":
            given[f"is{n}"] = f"%{quoted(value.name)}%"
        elif field == "passed":
            given |= {f"is{n}": value, f"stop{n}": entry_in_trail(value)}
        else:
            given[f"is{n}"] = _given(dialect, field, value) if op == "in" else value
    return given | {f"behind_{name}": value for name, value in zip(ORDERED[query.order], behind(query), strict=False)}


def _given(dialect: Dialect, field: str, values: tuple[str, ...]) -> object:
    """Return the parameter for a condition with several values; no queue has an empty name."""
    return dialect.listed(values or ("",)) if field == "queue" else json.dumps(values, ensure_ascii=False)


@cache
def page(dialect: Dialect, shape: Shape, *, letters: bool) -> AnySelect | None:
    """Return the statement of a page; None if no job can meet the query.

    `letters`: some queues, listed in the parameter of this name, may have dead letters, and these are queried.
    """
    tables = [table for table in shape.tables if table is history or not shape.of_letters_alone]
    several = len(tables) + 2 * letters > 1
    arms = [_arm(dialect, shape, table, _state(dialect, shape, table), typed=several) for table in tables]
    if letters:
        arms += [_arm(dialect, shape, jobs, _letters(dialect, state), typed=True) for state in ("queued", "waiting")]
    if len(arms) < 2:
        return arms[0] if arms else None
    found = union_all(*(select(arm.subquery()) for arm in arms)).subquery("found")
    columns: dict[str, AnyElement] = {name: found.c[name] for name in ORDERED[shape.order]}
    columns["id"] = dialect.by_bytes(columns["id"])
    return select(found).order_by(*_ordered(columns, shape.order)).limit(param("most", Integer))


def _arm(dialect: Dialect, shape: Shape, table: Table, state: ColumnElement[bool], *, typed: bool) -> AnySelect:
    """Return the search in one table. `typed`: the columns have the types of the other table's, for a union."""
    found = select(*_columns(shape, table, typed=typed)).where(_met(dialect, shape, table), state)
    if shape.letters:
        found = found.where(_in_letter_queues(dialect, table))
    if shape.further:
        found = found.where(_behind(table, shape.order))
    columns: dict[str, AnyElement] = {name: table.c[name] for name in ORDERED[shape.order]}
    if not shape.walks(table):  # keep the planner from walking along the ids
        columns["id"] = id_as_text(columns["id"])
    elif table is history and shape.order == "newest" and ("queue", "=") in shape.where:
        found = found.with_hint(history, "FORCE INDEX (stanchion_history_page)", "mysql")  # it may sort a whole queue
    return found.order_by(*_ordered(columns, shape.order)).limit(param("most", Integer))


def _ordered(columns: Mapping[str, AnyElement], order: Order) -> list[AnyElement]:
    if order == "newest":
        return [columns["id"].desc()]
    return [columns[name].desc() if name == "rank" else columns[name] for name in ORDERED[order]]


def _columns(shape: Shape, table: Table, *, typed: bool) -> list[AnyElement]:
    whole = dict(zip(JobRow._fields, finished_row() if table is history else [*live_row(), *_NEVER], strict=True))
    if shape.columns:
        return [whole[name].label(name) for name in shape.columns]
    return [column.label(name) for name, column in whole.items()] if typed or table is history else live_row()


_NEVER = (null_of(BigInteger()), null_of(Text()))
"""The finish time and the result of a live job: none."""


def _behind(table: Table, order: Order) -> ColumnElement[bool]:
    """Return the condition that a job follows the cursor."""
    (column, value), *rest = ((table.c[name], param(f"behind_{name}", table.c[name].type)) for name in ORDERED[order])
    if order == "newest":
        return column < value
    if not rest:
        return column > value
    if order == "due":
        return or_(column < value, and_(column == value, _later(*rest)))
    return and_(column >= value, _later((column, value), *rest))  # the first part serves as the range of an index


def _later(*pairs: tuple[AnyElement, AnyElement]) -> ColumnElement[bool]:
    """Return the condition that two columns, compared together, follow two values."""
    (first, first_value), (second, second_value) = pairs
    return or_(first > first_value, and_(first == first_value, second > second_value))


# -- conditions


def met(dialect: Dialect, shape: Shape, table: Table) -> ColumnElement[bool]:
    """Return the condition that a job matches a query."""
    sought = [_state(dialect, shape, table)]
    if table is jobs and shape.seeks_letters:
        sought.append(is_letter())
    return and_(_met(dialect, shape, table), or_(*sought))


def _met(dialect: Dialect, shape: Shape, table: Table) -> ColumnElement[bool]:
    conditions = [_condition(dialect, table, field, op, n) for n, (field, op) in enumerate(shape.where)]
    if shape.text:
        payload, errors = (dialect.position(table.c[name], param("text", Text)) > 0 for name in ("payload", "errors"))
        conditions.append(or_(and_(table.c["items"].is_(None), payload), errors))  # a chunk is no text to look into
    if shape.order == "due":
        conditions.append(table.c.state == QUEUED)
    return and_(true(), *conditions)


def _condition(dialect: Dialect, table: Table, field: str, op: str, n: int) -> ColumnElement[bool]:
    if field in (_OF_SLOTS if table is history else ()) or (field in KINDS and field not in table.c):
        return _NEVER_MET
    match field:
        case "token" if table is jobs:
            mine = jobs.c.token == param(f"is{n}", String)
            return and_(jobs.c.state == RUNNING, mine, in_time(_moment(dialect)))
        case "flow_root":  # its index has only jobs of flows
            return and_(table.c.flow_root.is_not(None), table.c.flow_root == param(f"is{n}", table.c.flow_root.type))
        case "waits_for":
            key = zip((jobs.c[name] for name in WAITS), ("kind", "queue", "is"), strict=True)
            return and_(jobs.c.waits_kind.is_not(None), *(one == param(f"{name}{n}", String) for one, name in key))
        case "order_key" if table is jobs:
            return and_(jobs.c.order_key.is_not(None), jobs.c.order_key == param(f"is{n}", String))
        case _ if field == DEATH[0] and op == "=":  # its index has only dead letters
            return and_(table.c[field].is_not(None), table.c[field] == param(f"is{n}", String))
        case _ if field == DEATH[0] and op == "in":
            return and_(table.c[field].is_not(None), table.c[field].in_(dialect.values(f"is{n}", String())))
        case "passed":
            stopped = dialect.position(table.c.trail, param(f"stop{n}", Text)) > 0
            return or_(table.c.queue == param(f"is{n}", String), and_(table.c.trail.is_not(None), stopped))
        case "holds":  # LIKE also matches similar names; the rows distinguish them
            return and_(jobs.c.slots_held > literal_column("0"), jobs.c.limits.like(param(f"is{n}", Text), escape="|"))
        case "holds_key":
            of_key = and_(jobs.c.queue == param(f"queue{n}", String), jobs.c.order_key == param(f"is{n}", String))
            return and_(jobs.c.slots_held > literal_column("0"), of_key)
    column: AnyElement = table.c[field]
    if op == "in" and field == "queue":
        return _in_queues(dialect, table, f"is{n}")
    if op == "in":
        return column.in_(dialect.values(f"is{n}", table.c[field].type))
    if KINDS.get(field) is Kind.NAME and op != "=":
        column = dialect.by_bytes(column)
    return _COMPARE[op](column, param(f"is{n}", table.c[field].type))


_OF_SLOTS = frozenset({*OF_SLOTS, "holds_key"})
"""Conditions that only live jobs meet."""
_NEVER_MET: ColumnElement[bool] = literal_column("1 = 0")
_COMPARE: dict[str, Callable[[AnyElement, AnyElement], ColumnElement[bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def seen_state(dialect: Dialect, table: Table) -> AnyElement:
    """Return the state that the API shows."""
    if table is history:
        return history.c.state
    due = case((jobs.c.run_at <= _moment(dialect), JobState.READY.value), else_=JobState.SCHEDULED.value)
    return case((is_letter(), JobState.DEAD.value), (jobs.c.state == QUEUED, due), else_=jobs.c.state)


def _moment(dialect: Dialect) -> ColumnElement[int]:
    """Return the clock, read once per statement instead of once per row."""
    return select(dialect.now).scalar_subquery()


def _state(dialect: Dialect, shape: Shape, table: Table) -> ColumnElement[bool]:
    """Return the condition that a job is in one of the states; dead letters are searched separately."""
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
    select(queues.c.name).where(queues.c.has_dead_letters == true()),
    select(queues.c.dead_letter).where(queues.c.dead_letter.is_not(None)),
)
"""The queues that may have dead letters, so that few jobs need to be read for them."""


def _in_letter_queues(dialect: Dialect, table: Table) -> ColumnElement[bool]:
    """Return the condition that a job is in one of the queues in the parameter `letters`."""
    return _in_queues(dialect, table, "letters")


def _in_queues(dialect: Dialect, table: Table, name: str) -> ColumnElement[bool]:
    """Return the condition that a job is in one of the listed queues: an index starts once per queue."""
    listed = text(dialect.among(f"{table.name}.queue", name))
    return and_(listed.bindparams(bindparam(name, type_=Text)))


def _letters(dialect: Dialect, state: str) -> ColumnElement[bool]:
    """Return the condition that a job is a dead letter in a stored state; served by its index, not by all live jobs."""
    here = and_(_in_letter_queues(dialect, jobs), is_letter())
    in_state = and_(jobs.c.state == literal_column(f"'{state}'"), here)
    return and_(in_state, jobs.c.waits_kind.is_not(None)) if state == "waiting" else in_state


# -- parts


def ids(dialect: Dialect, shape: Shape) -> Subquery:
    """Return the table of all ids that match a query, as its column `id`."""
    found = [select(table.c.id).where(met(dialect, shape, table)) for table in shape.tables]
    return (union_all(*found) if len(found) > 1 else found[0]).subquery("found")


@cache
def firsts(dialect: Dialect, shape: Shape) -> AnySelect:
    """Return the statement that finds the first ids of equal parts."""
    found = ids(dialect, shape)
    part = func.ntile(param("parts", Integer)).over(order_by=found.c.id).label("part")
    dealt = select(id_as_text(found.c.id).label("id"), part).subquery("dealt")
    return select(func.min(dealt.c.id)).group_by(dealt.c.part).order_by(func.min(dealt.c.id))
