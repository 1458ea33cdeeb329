"""What a parked job waits for, in words."""

from __future__ import annotations

from stanchion.context.context import Context
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.query import Find
from stanchion.stores.rules.slots import is_node_gate, semaphore_of

_LIVE = tuple(state for state in JobState if not state.final)
_PAGE = 1000


def waits_for(context: Context, job_id: str) -> str | None:
    """Tell what a job waits for: a slot, an earlier job of its order key, a part of its flow; None: nothing."""
    row = context.store.fetch([job_id]).get(job_id)
    if row is None or row.waits_for is None:
        return None
    if (semaphore := semaphore_of(row.waits_for)) is not None:
        line = context.store.permits(semaphore)[1]
        place = f", {ordinal(line.index(row.id) + 1)} in line" if row.id in line else ""
        return f"a slot of {semaphore}{place}"
    if is_node_gate(row.waits_for):
        return "a part of its flow"
    first = _first_of_key(context, row)
    return f"job {first} of the same order key" if first else "an earlier job of the same order key"


def _first_of_key(context: Context, row: JobRow) -> str | None:
    """Return the job whose turn it is, if it is among those that can be looked through at little cost."""
    for states in ((JobState.RUNNING,), _LIVE):
        found = context.store.find(Find(queue=row.queue, states=states, limit=_PAGE, stored=True))
        same = [one for one in found if one.order_key == row.order_key]
        if holders := [one for one in same if one.held and one.waits_for != row.waits_for]:
            return holders[0].id
        if states is _LIVE and len(found) < _PAGE:
            return min(((one.enqueued_at, one.id) for one in same if one.id != row.id), default=(0, None))[1]
    return None


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, ..."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
