"""Since when the first jobs of queues could run: the wait for a slot, or for a part of a flow, is not their lateness.

A store knows the first job of each rank by due time. One that was parked and has just got its slot would count by its
whole age until it is claimed. So the oldest are checked: which of the jobs after them could run first?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stanchion.alerts.snapshot import QueueSample
from stanchion.core.service_levels import band_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import Head
from stanchion.stores.rules.capacity.slots import priority_of
from stanchion.stores.rules.lifecycle.past_waits import last_wait_until

HEADS_MAX: Final = 10
"""Number of heads checked, the ones with the largest share of their bands' limits; others count from their due
time."""

BEHIND_MAX: Final = 50
"""Jobs that are read of a head: if all of them have waited, the ones after the last count from its due time."""

LEAST: Final = SECOND
"""The age, in microseconds, from which it matters."""


def as_they_could_run(store: Store, queues: Sequence[QueueSample]) -> tuple[QueueSample, ...]:
    """Return queues whose heads count from when they could run. One read for each of HEADS_MAX heads at most."""
    late = [(one.settings.name, head) for one in queues for head in one.stats.heads if head.due_in <= -LEAST]
    late = sorted(late, key=lambda one: one[1].due_in / band_of(priority_of(one[1].rank)).max_age)[:HEADS_MAX]
    found = {one: _as_it_could_run(store, *one) for one in late}
    return tuple(
        one._replace(
            stats=one.stats._replace(
                heads=tuple(found.get((one.settings.name, head), head) for head in one.stats.heads)
            )
        )
        for one in queues
    )


def _as_it_could_run(store: Store, queue: str, head: Head) -> Head:
    where = Condition("queue", "=", queue), Condition("lane", "=", head.lane), Condition("rank", "=", head.rank)
    due = Condition("run_at", "<=", head.run_at - head.due_in)
    query = Query("live", (*where, due), order="due", limit=BEHIND_MAX, columns=("run_at", "past_waits"))
    rows = store.select(query).rows
    began = [max(run_at, last_wait_until(waits)) for run_at, waits in rows]
    if len(rows) == BEHIND_MAX:
        began.append(rows[-1][0])
    first = min(began, default=head.run_at)  # all have been claimed meanwhile
    return head._replace(run_at=first, due_in=head.due_in + first - head.run_at)
