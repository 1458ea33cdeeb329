"""A search among jobs, checked at the door."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from stanchion.errors import InvalidInput
from stanchion.stores.records import Find, JobState
from stanchion.times import micros

MAX_PAGE = 100_000
"""So many jobs can be found at once."""


class PageOptions(TypedDict, total=False):
    """What to look for among the jobs of a queue, and how many of them."""

    state: JobState | str | Sequence[JobState | str] | None
    task: str | None
    tenant: str | None
    since: datetime | None
    until: datetime | None
    text: str | None
    limit: int
    after: str | None


class Search(PageOptions, total=False):
    """PageOptions, and the queue to look in."""

    queue: str | None


def query_of(search: Search) -> Find:
    """Return the checked search."""
    state, limit = search.get("state"), search.get("limit", 100)
    wanted = () if state is None else (state,) if isinstance(state, str) else tuple(state)
    try:
        states = tuple(JobState(one) for one in wanted)
    except ValueError as error:
        raise InvalidInput(f"{error}; the states are {', '.join(JobState)}") from None
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit must be from 1 to {MAX_PAGE:,}, not {limit!r}; page with after=<last id>")
    since, until = search.get("since"), search.get("until")
    for bound in (since, until):
        if bound is not None and bound.tzinfo is None:
            raise InvalidInput(f"{bound!r} has no time zone; pass an aware datetime")
    return Find(
        queue=search.get("queue"),
        states=states,
        task=search.get("task"),
        tenant=search.get("tenant"),
        since=None if since is None else micros(since),
        until=None if until is None else micros(until),
        text=search.get("text"),
        limit=limit,
        after=search.get("after"),
    )
