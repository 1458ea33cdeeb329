"""The store's clock, told from the times in its answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from stanchion.stores.records.jobs import SECOND

KEPT = 16
"""Answers by which the clock is told; a step of the store's clock is known after so many."""


class StoreTime:
    """The store's clock; never ahead of it, and behind it by the time that the fastest of the last answers took.

    So a job is not asked for before it is due. `clock`: own clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._offsets: deque[int] = deque(maxlen=KEPT)
        self._offset: int | None = None

    def saw(self, moment: int) -> None:
        """Take into account that an answer that has just come says that the store's clock was at this moment."""
        self._offsets.append(moment - self._own())
        self._offset = max(self._offsets)

    def now(self) -> int | None:
        """Return the time in microseconds; None before the first answer."""
        return None if self._offset is None else self._own() + self._offset

    def seconds_until(self, moment: int) -> float:
        """Return the seconds until the store's clock is at a moment; 0 if it is past it."""
        now = self.now()
        return 0.0 if now is None else max(0, moment - now) / SECOND

    def _own(self) -> int:
        return int(self._clock() * SECOND)
