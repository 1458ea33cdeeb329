"""The store's clock, estimated from the times in its answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from stanchion.stores.records.jobs import SECOND

KEPT = 16
"""Number of seconds with answers used for the estimate; a step of the store's clock is known after so many."""


class StoreTime:
    """The store's clock; never ahead of it, and behind it by the duration of the fastest of the last answers.

    So a job is not asked for before it is due. Of each second, only the fastest answer is kept, so that slow answers
    of busy times do not displace the others. `clock`: own clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._offsets: deque[tuple[int, int]] = deque(maxlen=KEPT)
        """Seconds of the own clock, each with the offset of its fastest answer."""
        self._offset: int | None = None

    def saw(self, moment: int, came: int | None = None) -> None:
        """Take into account that an answer says that the store's clock was at this moment.

        `came`: the own clock when the answer came; None: it has just come.
        """
        came = self.own() if came is None else came
        second, offset = came // SECOND, moment - came
        if self._offsets and self._offsets[-1][0] >= second:
            second, before = self._offsets.pop()
            offset = max(before, offset)
        self._offsets.append((second, offset))
        self._offset = max(offset for _, offset in self._offsets)

    def now(self) -> int | None:
        """Return the time in microseconds; None before the first answer."""
        return None if self._offset is None else self.own() + self._offset

    def seconds_until(self, moment: int) -> float:
        """Return the seconds until the store's clock is at a moment; 0 if it is past it."""
        now = self.now()
        return 0.0 if now is None else max(0, moment - now) / SECOND

    def own(self) -> int:
        """Return the own clock in microseconds; in any thread."""
        return int(self._clock() * SECOND)
