"""Queries: conditions on jobs, and orders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

Of = Literal["live", "history", "all"]
Order = Literal["newest", "id", "due", "arrival", "finished"]
Op = Literal["=", "<", "<=", ">", ">=", "in"]


class Condition(NamedTuple):
    """A comparison of a job's field: `=`, `<`, `<=`, `>`, `>=` with a value, or `in` with a tuple of values.

    A job without a value in the field does not meet it. The fields in `fields.jobs.COMPARED` support all operators.
    State and priority are compared as callers see them; a finished job has no rank. These support `=` only:

        token       the job is reserved under this token, with its lease in force; or it finished under it
        flow_root   it belongs to the flow with this id
        flow_node   it is a member of this node of a flow
        order_key   it has this order key
        passed      it is in the queue of this name, or has passed it
        waits_for   it waits for this `Slot`
        holds       it holds this `Slot`
    """

    field: str
    op: Op
    value: Any


MATCHED = frozenset({"token", "flow_root", "flow_node", "order_key", "passed", "waits_for", "holds"})
"""The fields that support `=` only."""

OF_SLOTS = frozenset({"waits_for", "holds"})
"""Conditions among them that are compared with a `Slot`; the others with a text."""


@dataclass(frozen=True, slots=True)
class Query:
    """The jobs that meet all conditions, sorted, from a cursor on, up to a limit.

    `of`: live jobs, history, or all. `text`: part of the payload or of an error. `after`: the cursor of the previous
    page. `columns`: fields of JobRow; if given, rows are tuples of these.

    The orders: `newest` and `id` by id, descending and ascending; `due` as claims take jobs, by rank, `run_at` and id;
    `arrival` as jobs came to the slot that they wait for; `finished` by time of the end, oldest first.

    `horizon`: return a Horizon with the page, read before the jobs.
    """

    of: Of = "all"
    where: tuple[Condition, ...] = ()
    text: str | None = None
    order: Order = "newest"
    after: str | None = None
    limit: int = 1000
    columns: tuple[str, ...] = ()
    horizon: bool = False

    def also(self, *where: Condition) -> Self:
        """Return the query with additional conditions."""
        return replace(self, where=(*self.where, *where))

    def following(self, after: str, limit: int) -> Self:
        """Return the query for the page after a cursor, with another limit."""
        return replace(self, after=after, limit=limit)


class Horizon(NamedTuple):
    """The moment of a read, and the transactions that may still add earlier events.

    `now`: by the store's clock. `writers`: names of the transactions then open that may write jobs, each name
    used once; None: the store can't list them.
    """

    now: int
    writers: frozenset[str] | None = None


class Page(NamedTuple):
    """Some jobs: JobRows, or tuples of the requested columns. `next` is the cursor of the next page.

    Without a cursor there are no more jobs. A page with a cursor may be the last one with jobs.
    """

    rows: list[Any]
    next: str | None = None
    horizon: Horizon | None = None
