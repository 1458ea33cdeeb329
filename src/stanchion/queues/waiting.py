"""Why a job is parked, as text."""

from __future__ import annotations

from itertools import zip_longest

from stanchion.context.context import Context
from stanchion.context.queues.pauses import past_pauses_of
from stanchion.core.times import moment
from stanchion.jobs.job import Job, PastWait
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.slots import NODE, SEMAPHORE

_PAGE = 1000


def waits_for(context: Context, job_id: str) -> str | None:
    """Return what a job waits for: a slot, an earlier job of its order key, or a part of its flow; None: nothing."""
    row = context.store.fetch([job_id]).get(job_id)
    slot = None if row is None else row.waits_for
    if row is None or slot is None:
        return None
    if slot.kind == SEMAPHORE:
        position = _position(context, row)
        return f"a slot of {slot.name}{f', {ordinal(position)} in line' if position else ''}"
    if slot.kind == NODE:
        return "a part of its flow"
    first = _first_of_key(context, row)
    return f"job {first} of the same order key" if first else "an earlier job of the same order key"


def past_waits(context: Context, job: Job) -> list[PastWait]:
    """Return the waits of a job that are over, oldest first; also the pauses of its queues while it was there.

    A pause has the kind `pause`, and the name of its queue. It delayed the job if this was due and not running.
    """
    stops = job.trail
    paused = past_pauses_of(context.store, {stop.queue for stop in stops})
    found = job.past_waits
    for stop, following in zip_longest(stops, stops[1:]):
        left = job.finished_at if following is None else following.entered_at
        for pause in paused.get(stop.queue, ()):
            since, until = max(moment(pause.since), stop.entered_at), moment(pause.until)
            until = until if left is None else min(until, left)
            if since < until:
                found.append(PastWait("pause", stop.queue, since, until))
    return sorted(found, key=lambda wait: (wait.since, wait.until))


def _position(context: Context, row: JobRow) -> int | None:
    """Return a job's position among those that wait for the same slot, from 1; None if it no longer waits."""
    before = 0
    line = Query("live", (Condition("waits_for", "=", row.waits_for),), order="arrival", columns=("id",), limit=_PAGE)
    for page in pages(context.store, line):
        ids = [job_id for (job_id,) in page]
        if row.id in ids:
            return before + ids.index(row.id) + 1
        before += len(ids)
    return None


def _first_of_key(context: Context, row: JobRow) -> str | None:
    """Return the job that holds the order key, else the oldest queued one of the key on the first page."""
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
