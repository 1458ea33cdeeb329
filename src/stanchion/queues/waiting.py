"""What a parked job waits for, in words."""

from __future__ import annotations

from stanchion.context.context import Context
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.slots import is_node_gate, semaphore_of

_PAGE = 1000


def waits_for(context: Context, job_id: str) -> str | None:
    """Tell what a job waits for: a slot, an earlier job of its order key, a part of its flow; None: nothing."""
    row = context.store.fetch([job_id]).get(job_id)
    if row is None or row.waits_for is None:
        return None
    if (semaphore := semaphore_of(row.waits_for)) is not None:
        place = _place_in_line(context, row)
        return f"a slot of {semaphore}{f', {ordinal(place)} in line' if place else ''}"
    if is_node_gate(row.waits_for):
        return "a part of its flow"
    first = _first_of_key(context, row)
    return f"job {first} of the same order key" if first else "an earlier job of the same order key"


def _place_in_line(context: Context, row: JobRow) -> int | None:
    """Return the how many-th a job is of those that wait for its slot; None when it waits no more."""
    before = 0
    line = Query("live", (Condition("waits_for", "=", row.waits_for),), order="arrival", columns=("id",), limit=_PAGE)
    for page in pages(context.store, line):
        ids = [job_id for (job_id,) in page]
        if row.id in ids:
            return before + ids.index(row.id) + 1
        before += len(ids)
    return None


def _first_of_key(context: Context, row: JobRow) -> str | None:
    """Return the job that holds the order key, or else the one that is first to get it, as far as a page shows."""
    holds, of_key = Condition("holds", "=", row.waits_for), Condition("order_key", "=", row.order_key)
    if holders := context.store.select(Query("live", (holds,), order="id", limit=1)).rows:
        return str(holders[0].id)
    same = Query("live", (Condition("queue", "=", row.queue), of_key), order="id", limit=_PAGE)
    others = ((one.enqueued_at, one.id) for one in context.store.select(same).rows if one.id != row.id)
    return min(others, default=(0, None))[1]


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, ..."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
