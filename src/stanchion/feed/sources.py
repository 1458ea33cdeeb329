"""The queries of a feed: jobs by the time of their push, of their start and of their end.

Each reads a bounded stretch of an index that the store has anyway. A job's id begins with its client's clock, so jobs
pushed in a period are found in a range of ids, extended by the possible error of clients' clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from stanchion.context.queue_patterns import QueuePatterns
from stanchion.core.names.partition_names import logical_name
from stanchion.stores.fields.jobs import DEATH
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Of, Order, Query

PAGE = 1000
"""Jobs per query."""

_COLUMNS = ("id", "queue", "state", "task", "tenant", "run_at", "enqueued_at", "attempts", "started_at", "finished_at")


class Selection(NamedTuple):
    """The events that are wanted; `queues`: given by name or by pattern, None for all."""

    kinds: frozenset[str]
    queues: QueuePatterns | None = None
    task: str | None = None
    tenant: str | None = None


class Period(NamedTuple):
    """From after one time to another, by the store's clock, in microseconds. `ids_until`: the latest time of an id."""

    after: int
    until: int | None
    skew: int
    ids_until: int

    def contains(self, at: int) -> bool:
        """Return whether a time is within the period."""
        return at > self.after and (self.until is None or at <= self.until)


class Seen(NamedTuple):
    """A job as a query of a feed has found it."""

    id: str
    queue: str
    state: str
    task: str | None
    tenant: str | None
    run_at: int
    enqueued_at: int
    attempts: int
    started_at: int | None
    finished_at: int | None


Source = Literal["pushes", "running", "ends", "deaths"]


def pushes(wanted: Selection, names: Sequence[str], period: Period, moved: int = 0) -> Query:
    """Return the query for the jobs pushed to these queues in a period; without names to all.

    `moved`: microseconds added to the store's clock by a test.
    """
    low = first_id(period.after - max(0, moved) - period.skew)
    high = first_id(period.ids_until - min(0, moved) + period.skew + 1000)
    ids = Condition("id", ">=", low), Condition("id", "<", high)
    return _query(wanted, "all", "id", names, *ids, *_within("enqueued_at", period))


def starts_and_ends(wanted: Selection, names: Sequence[str], period: Period) -> Iterator[tuple[Source, Query]]:
    """Yield the queries for the jobs of these queues that started or finished in a period.

    A job that starts and finishes in between is among the finished ones, as these are read last.
    """
    if "started" in wanted.kinds:
        running = Condition("state", "=", JobState.RUNNING.value)
        yield "running", _query(wanted, "live", "id", names, running, *_within("started_at", period))
    if wanted.kinds & {"started", "finished"}:
        yield "ends", _query(wanted, "history", "finished", names, *_within("finished_at", period))


def letters_query(wanted: Selection, period: Period) -> Query:
    """Return the query for the jobs that died in a period and were moved to a dead-letter queue.

    A dead letter is due at the time of its death, or later.
    """
    where = Condition("state", "=", "dead"), Condition("run_at", ">", period.after), *_within("dead_at", period)
    query = _query(wanted, "live", "id", (), *where)
    return replace(query, columns=(*_COLUMNS, *DEATH))


def deaths(rows: Iterable[tuple[Any, ...]], queues: Sequence[str]) -> Iterator[Seen]:
    """Yield dead letters as finished jobs of the queue where they died."""
    for *fields, home, died_at, attempts in rows:
        if (queue := logical_name(home)) in queues:
            yield Seen(*fields)._replace(queue=queue, state="dead", finished_at=died_at, attempts=attempts or 0)


def _query(wanted: Selection, of: Of, order: Order, queues: Sequence[str], *where: Condition) -> Query:
    named = [Condition("queue", "in", tuple(queues))]
    filters = [Condition(name, "=", value) for name in ("task", "tenant") if (value := getattr(wanted, name))]
    return Query(of, (*(named if queues else ()), *filters, *where), order=order, limit=PAGE, columns=_COLUMNS)


def _within(field: str, period: Period) -> list[Condition]:
    end = [] if period.until is None else [Condition(field, "<=", period.until)]
    return [Condition(field, ">", period.after), *end]


# -- ids


def first_id(micros: int) -> str:
    """Return the lowest id that a client can make at a time."""
    digits = f"{max(0, micros) // 1000:012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def made_at(job_id: str) -> int:
    """Return the creation time of an id by its client's clock; 0 for an id of another kind."""
    try:
        return int(job_id[:8] + job_id[9:13], 16) * 1000
    except ValueError:
        return 0
