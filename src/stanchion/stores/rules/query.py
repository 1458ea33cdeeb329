"""Conditions, orders and cursors of a query, for stores whose database can't evaluate them; and shared helpers."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from stanchion.core.checks import MAX_NAME, brief, whole
from stanchion.core.ids import ID
from stanchion.core.values.framing import Content
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import COMPARED, DEATH
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import MATCHED, OF_SLOTS, Condition, Horizon, Order, Page, Query
from stanchion.stores.records.queues import QueueStats, Sizes, Stat
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.slots import held_slots
from stanchion.stores.rules.lifecycle.claims import holds
from stanchion.stores.rules.lifecycle.jobs import state_of
from stanchion.stores.rules.lifecycle.trail import passed

PAGE = 2000
"""Jobs per read when a whole set is read."""

NEEDS: Mapping[Order, tuple[str, str]] = {
    "due": ("queue", "live"),
    "arrival": ("waits_for", "live"),
    "finished": ("queue", "history"),
}
"""For orders that need an index: the field that a query must name by `=`, and the value of `of`. The order `finished`
also serves queues named by `in`."""


def checked(query: Query) -> Query:
    """Return a query; InvalidInput for one that no store answers."""
    for field, op, value in query.where:
        if field in MATCHED and op == "=" and isinstance(value, Slot if field in OF_SLOTS else str):
            continue
        if field not in COMPARED or op not in COMPARE or (op == "in") != isinstance(value, tuple):
            raise InvalidInput(
                f"a query can't ask for {field} {op} {brief(value)}; it compares {', '.join(sorted(COMPARED))}, "
                f"and matches {', '.join(sorted(MATCHED))}"
            )
        for one in value if op == "in" else (value,):
            _check_value(field, one)
    behind(query)
    if unknown := set(query.columns) - set(JobRow._fields):
        raise InvalidInput(f"a job has no {', '.join(sorted(unknown))}; it has {', '.join(JobRow._fields)}")
    if query.order in NEEDS:
        field, of = NEEDS[query.order]
        named = value_of(query, field) is not None or (query.order == "finished" and several_of(query, field))
        if query.of != of or not named:
            raise InvalidInput(f"the order {query.order} is of {of} jobs with a condition {field} = ...")
    if query.limit < 1:
        raise InvalidInput(f"a page has at least 1 job, not {query.limit}")
    return query


def _check_value(field: str, value: object) -> None:
    """Raise InvalidInput for a value that no job can have in a field."""
    bits = NUMBERS.get(field)
    if bits is None and not (isinstance(value, str) and len(value) <= MAX_NAME):
        raise InvalidInput(
            f"a query compares {field} with texts of up to {MAX_NAME} characters, not with {brief(value)}"
        )
    if field == "id" and not (isinstance(value, str) and ID.fullmatch(value)):
        raise InvalidInput(f"a query compares id with UUIDs in small letters, not with {brief(value)}")
    if bits is not None:
        whole(value, f"the {field} in a query", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


NUMBERS: Mapping[str, int] = {
    **{"priority": 16, "rank": 16, "lane": 32},
    **dict.fromkeys(("run_at", "enqueued_at", "started_at", "finished_at", "waits_since", "dead_at"), 64),
}
"""The fields with numbers, and their bits in a database."""


def met(row: JobRow, query: Query, now: int) -> bool:
    """Return True if a job meets the conditions of a query, regardless of its cursor."""
    if (query.of == "live" and row.finished_at is not None) or (query.of == "history" and row.finished_at is None):
        return False
    if query.order == "due" and row.state != QUEUED:
        return False
    if query.text is not None and not holds_text(row.payload, row.errors, query.text):
        return False
    return all(_meets(row, condition, now) for condition in query.where)


def holds_text(payload: Content, errors: str | None, text: str) -> bool:
    """Return True if a payload or an error has this text; nobody looks into chunks for it."""
    return (not isinstance(payload, bytes) and text in payload) or text in (errors or "")


def _meets(row: JobRow, condition: Condition, now: int) -> bool:
    field, op, wanted = condition
    value: object
    match field:
        case "state":
            value = state_of(row, now).value
        case "token":
            return (
                row.token == wanted
                if row.finished_at is not None
                else holds(row, row.lease._replace(token=wanted), now)
            )
        case "passed":
            return passed(row, wanted)
        case "holds":
            return row.finished_at is None and wanted in held_slots(row)
        case "rank":
            value = row.rank if row.finished_at is None else None
        case _:
            value = getattr(row, field)
    return value is not None and COMPARE[op](value, wanted)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, several: value in several,
}


def value_of(query: Query, field: str) -> Any:
    """Return the value that a query requires of a field by `=`; None if it requires none."""
    return next((value for name, op, value in query.where if name == field and op == "="), None)


def several_of(query: Query, field: str) -> tuple[Any, ...]:
    """Return the values among which a query wants a field by `in`; none if it has no such condition."""
    return next((value for name, op, value in query.where if name == field and op == "in"), ())


def are_letters(query: Query) -> bool:
    """Return True if only dead letters can meet a query, live or finished."""
    return any(one.field == DEATH[0] for one in query.where)


def states_in(query: Query) -> frozenset[JobState] | None:
    """Return the states that a query asks for; None for any."""
    asked = [(op, value) for field, op, value in query.where if field == "state"]
    met = (state for state in JobState if all(COMPARE[op](state.value, value) for op, value in asked))
    return frozenset(met) if asked else None


def queues_of(query: Query, known: Iterable[str]) -> list[str]:
    """Return the known queues that may contain jobs of a query."""
    wanted = set(known)
    for field, op, value in query.where:
        if field == "queue" and op == "=":
            wanted &= {value}
        elif field == "queue" and op == "in":
            wanted &= set(value)
    return sorted(wanted)


# -- orders and pages


ORDERED: Mapping[Order, tuple[str, ...]] = {
    "newest": ("id",),
    "id": ("id",),
    "due": ("rank", "run_at", "id"),
    "arrival": ("waits_since", "id"),
    "finished": ("finished_at", "id"),
}
"""The sort fields of each order: ascending, except for `newest` and for ranks."""


def place(row: JobRow, order: Order) -> tuple[Any, ...]:
    """Return the ascending sort key of a job; `newest` sorts in reverse."""
    first, *rest = (getattr(row, name) for name in ORDERED[order])
    return (-first if order == "due" else first, *rest)


def cursor(values: Sequence[object]) -> str:
    """Return the cursor of the page after a job with these values of the ORDERED fields."""
    return json.dumps(values)


def behind(query: Query) -> tuple[Any, ...]:
    """Return the values in a query's cursor; empty for the first page. Raises InvalidInput for any other text."""
    if query.after is None:
        return ()
    fields = ORDERED[query.order]
    try:
        values = json.loads(query.after)
        if not isinstance(values, list) or len(values) != len(fields):
            raise InvalidInput("another number of values")
        for field, value in zip(fields, values, strict=True):
            _check_value(field, value)
    except (ValueError, RecursionError, InvalidInput):
        raise InvalidInput(
            f"{brief(query.after)} is no cursor of a page in the order {query.order}: give the one that came with the "
            f"page before, or none for the first page"
        ) from None
    return tuple(values)


def is_behind(row: JobRow, query: Query) -> bool:
    """Return whether a job follows the cursor of a query."""
    values = behind(query)
    if not values:
        return True
    if query.order == "newest":
        return bool(row.id < values[0])
    first, *rest = values
    return bool(place(row, query.order) > (-first if query.order == "due" else first, *rest))


def page_of(rows: Iterable[JobRow], query: Query) -> Page:
    """Return the page of a query, given a superset of its jobs that meet the conditions."""
    rows = (row for row in rows if is_behind(row, query))
    ordered = sorted(rows, key=lambda row: place(row, query.order), reverse=query.order == "newest")
    return cut_off(ordered, query)


def cut_off(rows: Sequence[JobRow], query: Query) -> Page:
    """Return the page of a query that starts with these jobs; it is the last one if below the limit."""
    kept = rows[: query.limit]
    last = [getattr(kept[-1], name) for name in ORDERED[query.order]] if len(kept) == query.limit else None
    more = None if last is None else cursor(last)
    return Page(projected(kept, query.columns), more)


def projected(rows: Sequence[JobRow], columns: Sequence[str]) -> list[Any]:
    """Return jobs, or the requested columns of them."""
    return [tuple(getattr(row, name) for name in columns) for row in rows] if columns else list(rows)


def merged(query: Query, parts: Sequence[tuple[Callable[[Query], Page], Query]]) -> Page:
    """Return the page of a query whose jobs come from several, given as pairs of a reader and a query.

    Each is read up to the limit, so the reads are bounded. A page that is short, although there are more jobs, is
    completed: what would come between its last job and the first of another page is not known otherwise.
    """
    sort_fields = [name for name in ("id", *ORDERED[query.order]) if name not in query.columns]
    columns = (*query.columns, *dict.fromkeys(sort_fields)) if query.columns else ()
    found: dict[str, JobRow] = {}
    horizons: list[Horizon] = []
    for select, part in parts:
        left, after = query.limit, part.after
        while left > 0:
            page = select(replace(part, columns=columns, after=after, limit=left))
            found |= {row.id: row for row in ([_row(columns, row) for row in page.rows] if columns else page.rows)}
            horizons += [page.horizon] if page.horizon is not None else []
            left, after = left - len(page.rows), page.next
            if after is None:
                break
    ordered = sorted(found.values(), key=lambda row: place(row, query.order), reverse=query.order == "newest")
    page = cut_off(ordered, query)
    return page._replace(horizon=Horizon(min(one.now for one in horizons))) if horizons else page


def _row(columns: Sequence[str], values: Sequence[object]) -> JobRow:
    """Return the columns of a job as a row without the others."""
    fields = dict(zip(columns, values, strict=True))
    return JobRow._make(map(fields.get, JobRow._fields, _NOTHING))


_NOTHING = JobRow("", "", -1, "", 0, 0, 0, 0, "")


# -- parts


def cut(query: Query, ids: Iterable[str]) -> list[Query]:
    """Return the parts of a query that start at these ids; the first part has no lower bound."""
    bounds = [None, *sorted(set(ids))[1:], None]
    return [_between(query, first, end) for first, end in pairwise(bounds)]


def _between(query: Query, first: str | None, end: str | None) -> Query:
    above = () if first is None else (Condition("id", ">=", first),)
    below = () if end is None else (Condition("id", "<", end),)
    return query.also(*above, *below)


def evenly(ids: Sequence[str], parts: int) -> list[str]:
    """Return the first ids of `parts` parts of about equal size; `ids` are sorted."""
    return [ids[len(ids) * n // parts] for n in range(parts)] if ids else []


# -- figures


def sizes_in(by_state: Mapping[str, tuple[int, int]]) -> Sizes:
    """Return the sizes of a queue, given for each stored state the number of live jobs and of due ones."""
    queued, ready = by_state.get(QUEUED, (0, 0))
    waiting, running = (by_state.get(state, (0, 0))[0] for state in (JobState.WAITING, JobState.RUNNING))
    return Sizes(queued + waiting + running, ready, queued - ready, waiting, running)


def counts_states(fields: Collection[Stat]) -> bool:
    """Return whether these figures need the numbers of jobs: items are the jobs, and what chunks carry beyond one."""
    return "states" in fields or "items" in fields


def stats_in(jobs: Sizes, more: Sizes, fields: Collection[Stat]) -> QueueStats:
    """Return the sizes of a queue that were asked for. `more`: the items of its live chunks beyond one each."""
    return QueueStats(
        states=jobs if "states" in fields else Sizes(), items=jobs.plus(more) if "items" in fields else Sizes()
    )
