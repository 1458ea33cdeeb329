"""Counts in a Spark process of items that did not meet an expectation of their station."""

from __future__ import annotations

import logging

from stanchion.errors import StanchionError
from stanchion.stores.protocol import Store
from stanchion.telemetry.failures import UNMET, Batch, FailureTally

log = logging.getLogger("stanchion.spark")

_TRIES = 20
"""Merges of a task, which compete with other tasks of the batch."""


class UnmetItems:
    """The items of one station, by its queue, that a process has met and that did not meet an expectation."""

    def __init__(self, queue: str) -> None:
        self._queue, self._tally = queue, FailureTally(UNMET)

    def add(self, condition: str, item: str, *, dead: bool) -> None:
        """Add an item, by its id."""
        self._tally.add(self._queue, None, condition, condition, item, new=True, dead=dead)

    def merge(self, store: Store, batch: Batch | None = None) -> None:
        """Merge them into the store; they are lost if it is down, as the items themselves are settled.

        `batch`: they are all such items of this batch, which count once, however often they are merged.
        """
        try:
            for _ in range(_TRIES):
                self._tally.merge(store, batch=batch)
        except StanchionError as error:
            log.warning("queue %s: items that failed an expectation are not counted: %s", self._queue, error)
