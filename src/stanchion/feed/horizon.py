"""How far a feed is complete: the time before which no event can appear any more."""

from __future__ import annotations

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Horizon

LATE_MICROS = 2 * SECOND
"""Longest time between reading the clock in a step and seeing its transaction as open, or its result as visible."""


class Settled:
    """The time before which no event can appear any more, derived from successive horizons.

    A step reads the clock, writes, and becomes visible later, with its transaction. If the store names the open
    transactions, one that is named first now has begun to write after the previous horizon. So events before that are
    complete, unless an older transaction is still open. If it names none, a step is taken to be visible after
    `overlap`.

    `at`: that time; everything before the start of the feed counts as settled.
    """

    def __init__(self, start: int, overlap: int) -> None:
        self.at = start
        self._overlap = overlap
        self._writing_since: dict[str, int] = {}
        self._latest = start

    def move(self, horizon: Horizon) -> int:
        """Add a horizon that was read before the jobs of a poll; return the end of the time that the poll covers."""
        if horizon.writers is None:
            self.at = max(self.at, horizon.now - self._overlap)
            return self.at
        known = self._writing_since
        self._writing_since = {name: known.get(name, self._latest) for name in horizon.writers}
        self._latest = max(self._latest, horizon.now - LATE_MICROS)
        self.at = max(self.at, min([self._latest, *self._writing_since.values()]))
        return self.at
