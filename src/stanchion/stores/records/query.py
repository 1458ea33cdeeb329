"""Queries: which jobs are asked for, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

Of = Literal["live", "history", "all"]
Order = Literal["newest", "id", "due", "arrival", "finished"]
Op = Literal["=", "<", "<=", ">", ">=", "in"]


class Condition(NamedTuple):
    """What a field of a job is compared with: `=`, `<`, `<=`, `>`, `>=` a value, or `in` a tuple of them.

    A job without a value there does not meet it. Fields that can be compared in each of these ways: COMPARED. State
    and priority are what the outside sees. These take `=` alone:

        token       the job is reserved under this token, and the lease in force; or it finished under it
        flow        it belongs to the flow with this id
        order_key   it has this order key
        waits_for   it waits for this slot, by its name in `rules.slots`
        holds       it holds this slot
    """

    field: str
    op: Op
    value: Any


COMPARED = frozenset(
    {
        *("id", "queue", "lane", "state", "task", "tenant", "priority"),
        *("run_at", "enqueued_at", "started_at", "finished_at"),
    }
)
"""The fields that can be compared in any way."""

MATCHED = frozenset({"token", "flow", "order_key", "waits_for", "holds"})
"""The conditions that take `=` alone."""


@dataclass(frozen=True, slots=True)
class Query:
    """The jobs that meet all conditions, in an order, from behind a cursor on, up to a limit.

    `of`: live jobs, history, or all. `text` is part of the payload or of an error. `after`: the cursor that came with
    the page before. `columns`: fields of JobRow; where given, rows are tuples of these.

    The orders: `newest` and `id` by the id, descending and ascending; `due` as claims go, by priority, `run_at` and id;
    `arrival` as jobs came to the slot that they wait for; `finished` by the moment of the end, oldest first.
    """

    of: Of = "all"
    where: tuple[Condition, ...] = ()
    text: str | None = None
    order: Order = "newest"
    after: str | None = None
    limit: int = 1000
    columns: tuple[str, ...] = ()

    def also(self, *where: Condition) -> Self:
        """Return the query with further conditions."""
        return replace(self, where=(*self.where, *where))


class Page(NamedTuple):
    """Some jobs: JobRows, or tuples of the columns that were asked for. `next` is the cursor of the next page.

    Without one there are no more. A page with a cursor may be the last one with jobs.
    """

    rows: list[Any]
    next: str | None = None
