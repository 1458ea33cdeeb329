"""The share of upkeep that all stores have in common: within its time, and telling what was left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

MAINTAIN_SECONDS = 2.0
"""Seconds that one call of `maintain` takes, about."""


class Budget:
    """The time that a piece of upkeep may take."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> bool:
        """True while there is time left."""
        return time.monotonic() < self._until


def purge_each(purge: Callable[[str], int], queues: Iterable[str], portion: int, budget: Budget) -> list[str]:
    """Purge queues, portion by portion in turn, until none has a whole one left; return those that time left behind.

    `purge` deletes up to a portion of a queue's history. Each queue gets one, however little time there is.
    """
    left = [queue for queue in queues if purge(queue) >= portion]
    while left and budget.left:
        left = [queue for queue in left if purge(queue) >= portion]
    return left
