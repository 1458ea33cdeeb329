"""Queries: which jobs are asked for, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from stanchion.stores.records.jobs import JobState


@dataclass(frozen=True, slots=True)
class Find:
    """A search over live and finished jobs, newest first. None means any."""

    queue: str | None = None
    states: tuple[JobState, ...] = ()
    task: str | None = None
    tenant: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    flow: str | None = None
    """The id of a flow."""
    stored: bool = False
    """The states are those in the queues, where a dead letter is queued; else it is dead, as the outside sees it."""
    limit: int = 100
    after: str | None = None
    """Only jobs with an id below this one: the next page."""


class Condition(NamedTuple):
    """What a field of a job is compared with: `=`, `<`, `<=`, `>`, `>=` a value, or `in` a tuple of them.

    A job without a value there does not meet it. The fields are SCANNED; a state is what the outside sees.
    """

    field: str
    op: Literal["=", "<", "<=", ">", ">=", "in"]
    value: Any


SCANNED = frozenset(
    {
        *("id", "queue", "lane", "state", "task", "tenant", "priority"),
        *("run_at", "enqueued_at", "started_at", "finished_at"),
    }
)
"""The fields by which a scan can choose."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A wish for all live jobs, or all of history, that meet all conditions."""

    of: Literal["jobs", "history"] = "jobs"
    where: tuple[Condition, ...] = ()
