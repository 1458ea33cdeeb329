"""Items that pass from station to station in memory, in one attempt of the worker.

claimed at raw ──raw()──► Move ──clean()──► Move ──short()──► Commit
                          └───────── stored together, as one Pass ─────────┘

The store has the item at its first station until then: after a death it runs again from there. So an item passes on
only where the code allows it, see `pipelines.segments`, and where nothing about the item, its queues or this worker
forbids it now; otherwise it is stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stanchion.context.context import Context
from stanchion.core.boot_clock import boot_clock
from stanchion.errors import StanchionError
from stanchion.jobs.held_job import Passing
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Move, Outcome
from stanchion.stores.rules.lifecycle.outcomes import has_to_be_stored, passed_on
from stanchion.worker.running.attempt import Attempt

log = logging.getLogger("stanchion.worker")

SLICE_SECONDS = 10.0
"""Seconds after the start of an item's first attempt from which it is stored before another station runs.

So a death repeats no more than that, besides the station that runs then.
"""

TICK = 0.01
"""Seconds to which the start of an attempt is known that follows another one in memory."""


class Passes:
    """Decides which items pass on; `serves`: whether this worker takes the jobs of a queue."""

    def __init__(self, context: Context, serves: Callable[[str], bool]) -> None:
        self._context, self._serves = context, serves
        self.stopping = False
        """True once the worker stops: from then on, items are stored."""

    def following(self, attempt: Attempt, outcome: Outcome | None) -> tuple[JobRow, Passing] | None:
        """Return an item at the next station, as if it had been moved and reserved there; None: it has to be stored.

        `outcome`: that of its attempt at this one.
        """
        if type(outcome) is not Move or self.stopping or not self._may_pass(attempt, outcome):
            return None
        row = attempt.row
        passing = attempt.passing or Passing(row, (), (), attempt.began)
        now = _now(passing.first, attempt.claimed_at)
        return passed_on(row, outcome, now), passing.after(row, outcome, attempt.known_job)

    def _may_pass(self, attempt: Attempt, move: Move) -> bool:
        row, stations = attempt.row, self._context.registry.stations
        here, there = stations.get(row.queue), stations.get(move.queue)  # a partition has another name
        if here is None or there is None or not here.passes_to(move.queue) or not there.on_workers:
            return False
        if here.is_async and not there.is_async:  # the thread of an event loop runs nothing else
            return False
        if has_to_be_stored(row, move) or attempt.asked_to_stop:
            return False
        since = attempt.began if attempt.passing is None else attempt.passing.since
        if time.monotonic() - since >= SLICE_SECONDS or not self._serves(move.queue):
            return False
        try:
            return self._context.settings.let_pass(self._context.store, row.queue, move.queue)
        except StanchionError as error:
            log.debug("item %s is stored, as the settings of its queues can't be read: %s", row.id, error)
            return False


def _now(first: JobRow, claimed_at: float) -> int:
    """Return the time by the store's clock, from the time of the claim. `claimed_at`: the same by the boot clock.

    In steps of TICK, so that items which are claimed together have the same headers and trails: these are made once.
    """
    return (first.started_at or first.run_at) + int(max(0.0, boot_clock() - claimed_at) / TICK) * int(TICK * SECOND)
