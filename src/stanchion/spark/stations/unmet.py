"""What a task of Spark tallies of the items that did not meet an expectation of their station."""

from __future__ import annotations

import logging

from stanchion.errors import StanchionError
from stanchion.pipelines.station import Station
from stanchion.telemetry.failures import UNMET, FailureTally

log = logging.getLogger("stanchion.spark")

_TRIES = 20
"""Merges of a task, which compete with those of the other tasks of the batch."""


class UnmetItems:
    """The items of one station that a task has met, and that did not meet an expectation."""

    def __init__(self, station: Station) -> None:
        self._station, self._tally = station, FailureTally(UNMET)

    def add(self, condition: str, item: str, *, dead: bool) -> None:
        """Add an item, by its id."""
        self._tally.add(self._station.queue, None, condition, condition, item, new=True, dead=dead)

    def merge(self) -> None:
        """Merge them into the store; they are lost if it is down, as the items themselves are settled."""
        try:
            for _ in range(_TRIES):
                self._tally.merge(self._station.context.store)
        except StanchionError as error:
            log.warning("station %s: items that failed an expectation are not counted: %s", self._station.name, error)
