"""The conditions of a query, for a store whose database can't check them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import SCANNED, Condition, Find, Scan
from stanchion.stores.records.queues import Sizes
from stanchion.stores.rules.jobs import own_priority, state_of, stored_state_of

PAGE = 2000
"""Jobs in a page of a scan."""


def sizes_in(by_state: Mapping[str, tuple[int, int]]) -> Sizes:
    """Return the sizes of a queue from how many live jobs are stored in each state, and how many of them are due."""
    queued, ready = by_state.get(QUEUED, (0, 0))
    waiting, running = (by_state.get(state, (0, 0))[0] for state in (JobState.WAITING, JobState.RUNNING))
    return Sizes(queued + waiting + running, ready, queued - ready, waiting, running)


def met(row: JobRow, scan: Scan, now: int) -> bool:
    """Tell whether a job is one of those that a scan wants."""
    if (row.finished_at is None) != (scan.of == "jobs"):
        return False
    return all(_meets(row, condition, now) for condition in scan.where)


def _meets(row: JobRow, condition: Condition, now: int) -> bool:
    value: Any
    if condition.field == "state":
        value = state_of(row, now).value
    elif condition.field == "priority":
        value = own_priority(row.priority)
    else:
        value = getattr(row, condition.field)
    return value is not None and _COMPARE[condition.op](value, condition.value)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, several: value in several,
}


def checked(scan: Scan) -> Scan:
    """Return a scan; InvalidInput for one whose conditions no store knows."""
    for field, op, value in scan.where:
        if field not in SCANNED or op not in _COMPARE or (op == "in") != isinstance(value, tuple):
            raise InvalidInput(
                f"a scan can't ask for {field} {op} {value!r}; its fields are {', '.join(sorted(SCANNED))}"
            )
    return scan


def cut(scan: Scan, ids: Iterable[str]) -> list[Scan]:
    """Return the parts of a scan that begin with these ids; the first has all that come before the second, too."""
    bounds = [None, *sorted(set(ids))[1:], None]
    return [_between(scan, first, end) for first, end in pairwise(bounds)]


def _between(scan: Scan, first: str | None, end: str | None) -> Scan:
    conditions = list(scan.where)
    if first is not None:
        conditions.append(Condition("id", ">=", first))
    if end is not None:
        conditions.append(Condition("id", "<", end))
    return replace(scan, where=tuple(conditions))


def queues_of(scan: Scan, known: Iterable[str]) -> list[str]:
    """Return those of the known queues in which the jobs of a scan can be."""
    wanted = set(known)
    for field, op, value in scan.where:
        if field == "queue" and op == "=":
            wanted &= {value}
        elif field == "queue" and op == "in":
            wanted &= set(value)
    return sorted(wanted)


def matches(row: JobRow, query: Find, now: int) -> bool:
    """Tell whether a job is one of those searched for; its queue is not looked at."""
    state = stored_state_of if query.stored else state_of
    return (
        (query.after is None or row.id < query.after)
        and (not query.states or state(row, now) in query.states)
        and (query.task is None or row.task == query.task)
        and (query.tenant is None or row.tenant == query.tenant)
        and (query.flow is None or (row.flow is not None and row.flow.startswith(f"{query.flow}:")))
        and (query.since is None or row.enqueued_at >= query.since)
        and (query.until is None or row.enqueued_at < query.until)
        and (query.text is None or query.text in row.payload or query.text in (row.errors or ""))
    )
