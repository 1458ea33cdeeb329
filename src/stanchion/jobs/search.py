"""Searches for jobs, and the checks of their options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from stanchion.core.checks import aware, brief, checked_id, checked_name, refuse_unknown, whole
from stanchion.core.times import micros
from stanchion.errors import InvalidInput
from stanchion.jobs.contents import Contents, checked_headers, checked_payload
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Of, Op, Query

MAX_PAGE = 100_000
"""Jobs per search."""


class PageOptions(TypedDict, total=False):
    """Options of a search in one queue."""

    state: JobState | str | Sequence[JobState | str] | None
    task: str | None
    tenant: str | None
    since: datetime | None
    until: datetime | None
    finished_since: datetime | None
    finished_until: datetime | None
    payload: Mapping[str | tuple[str | int, ...], str | float | bool | None] | None
    headers: Mapping[str, str | float | bool | None] | None
    flow: str | None
    text: str | None
    limit: int
    after: str | None


class Search(PageOptions, total=False):
    """PageOptions, and the queue to search; or `passed`, the one that the jobs are in, or have passed."""

    queue: str | None
    passed: str | None


def query_of(search: Mapping[str, object]) -> Query:
    """Return the checked search, a `Search` once it is, newest jobs first."""
    refuse_unknown(search, Search.__optional_keys__, "option of a search")
    given = {name: _CHECKS[name](value) for name, value in search.items() if value is not None}
    states = given.pop("state", ())
    where = [Condition(*_CONDITIONS[name], given[name]) for name in _CONDITIONS if name in given]
    if states:
        where.append(Condition("state", "in", tuple(state.value for state in states)))
    of: Of = "live" if states and not any(state.final for state in states) else "all"
    if not _OF_THE_END.isdisjoint(given):
        of = "history"
    return Query(of, tuple(where), given.get("text"), limit=given.get("limit", 100))


def contents_of(search: Search) -> Contents:
    """Return the checked conditions of a search on what is inside of jobs."""
    payload, headers = search.get("payload"), search.get("headers")
    return Contents(
        () if payload is None else checked_payload(payload), () if headers is None else checked_headers(headers)
    )


_OF_THE_END = frozenset({"finished_since", "finished_until"})

_CONDITIONS: dict[str, tuple[str, Op]] = {
    "queue": ("queue", "="),
    "passed": ("passed", "="),
    "task": ("task", "="),
    "tenant": ("tenant", "="),
    "flow": ("flow_root", "="),
    "since": ("enqueued_at", ">="),
    "until": ("enqueued_at", "<"),
    "finished_since": ("finished_at", ">="),
    "finished_until": ("finished_at", "<"),
    "after": ("id", "<"),
}


def _states(state: object) -> tuple[JobState, ...]:
    wanted = (state,) if isinstance(state, str) else state
    if isinstance(wanted, (bytes, Mapping)) or not isinstance(wanted, Iterable):
        raise InvalidInput(f"state must be a state or a list of states, such as 'dead', not {brief(state)}")
    try:
        return tuple(JobState(one) for one in wanted)
    except ValueError as error:
        raise InvalidInput(f"{error}; the states are {', '.join(JobState)}") from None


def _limit(limit: object) -> int:
    try:
        return whole(limit, "limit", 1, MAX_PAGE)
    except InvalidInput as error:
        raise InvalidInput(f"{error}; page with after=<last id>") from None


def checked_text(text: object) -> str:
    """Return a text to search for, if a database can hold it."""
    if not isinstance(text, str) or "\0" in text or (not text.isascii() and _has_surrogates(text)):
        raise InvalidInput(f"text must be the text to find in payloads and errors, without NUL, not {brief(text)}")
    return text


def _after(after: object) -> str:
    try:
        return str(UUID(checked_id(after, "after")))
    except ValueError:
        raise InvalidInput(f"after must be the id of the last job of the previous page, not {brief(after)}") from None


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


_CHECKS: dict[str, Callable[[object], Any]] = {
    "queue": lambda value: checked_name(value, "queue"),
    "passed": lambda value: checked_name(value, "queue"),
    "state": _states,
    "task": lambda value: checked_name(value, "task"),
    "tenant": lambda value: checked_name(value, "tenant"),
    "flow": lambda value: checked_id(value, "the id of a flow"),
    "since": lambda value: micros(aware(value, "since")),
    "until": lambda value: micros(aware(value, "until")),
    "finished_since": lambda value: micros(aware(value, "finished_since")),
    "finished_until": lambda value: micros(aware(value, "finished_until")),
    "payload": checked_payload,
    "headers": checked_headers,
    "text": checked_text,
    "limit": _limit,
    "after": _after,
}
