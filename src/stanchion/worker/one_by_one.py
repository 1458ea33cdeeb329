"""Stores outcomes one by one, where a call with all of them has failed: a bad one must not hold up the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import NamedTuple

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.jobs.failures import described
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Rollback
from stanchion.tasks.execution import unstorable
from stanchion.worker.attempt import Finished

MISSES_MAX = 3
"""Outcomes in a row for which the store is unavailable, though it takes others, after which a round ends: each takes as
long as a call may."""

REPEAT = 60.0
"""Seconds until a job whose outcome could not be stored runs again."""


def unstored(outcome: outcomes.Outcome, error: Exception) -> outcomes.Outcome:
    """Return the outcome of a job whose own can't be stored: dead if it is too large for the store, else retried."""
    if isinstance(error, InvalidInput):
        return unstorable(outcome, error)
    return Rollback(outcome.lease, REPEAT, f"the outcome can't be stored: {described(error)[0]}")


class Left(NamedTuple):
    """The outcomes that are not stored yet, in the order in which to try them again."""

    group: list[Finished]
    at_fault: bool
    """The store takes other outcomes, so it is not away: these are at fault, or something has locked their jobs."""


class OneByOne:
    """Stores outcomes one by one.

    `settle(group, repeat)` stores a group, `stored(group, states)` reports on it. `takes(outcome)` tells whether the
    store takes outcomes of such a kind and queue now. Nothing more is tried once `aborted` is set.
    """

    def __init__(
        self,
        settle: Callable[[Sequence[Finished], bool], list[JobState | None]],
        stored: Callable[[Sequence[Finished], Sequence[JobState | None]], None],
        takes: Callable[[outcomes.Outcome], bool],
        aborted: Event,
    ) -> None:
        self._settle, self._stored, self._takes, self._aborted = settle, stored, takes, aborted

    def store(self, group: Sequence[Finished]) -> Left:
        """Store what can be stored.

        An outcome that the store can't hold ends its job, and one that ends in any other error becomes a failure of its
        attempt. One for which the store is busy or away is left: the job would run again although it is done.
        """
        missed: list[Finished] = []
        away: set[str] = set()
        at_fault, misses = False, 0
        for place, finished in enumerate(group):
            outcome = finished[0]
            if self._aborted.is_set() or misses == MISSES_MAX:
                return Left([*group[place:], *missed], at_fault)
            if outcome is not None and outcome.lease.queue in away:
                missed.append(finished)
            elif outcome is None or (error := self._failed(finished)) is None:
                at_fault, misses = True, 0
            elif not isinstance(error, StoreUnavailable):
                at_fault, misses = True, 0
                if self._failed((unstored(outcome, error), finished[1], error)) is not None:
                    missed.append(finished)
            elif self._takes(outcome):
                at_fault, misses = True, misses + 1
                missed.append(finished)
            else:
                away.add(outcome.lease.queue)
                missed.append(finished)
        return Left(missed, at_fault)

    def _failed(self, finished: Finished) -> Exception | None:
        """Store an outcome; return its error, None if it is stored."""
        try:
            states = self._settle([finished], True)
        except Exception as error:
            return error
        self._stored([finished], states)
        return None
