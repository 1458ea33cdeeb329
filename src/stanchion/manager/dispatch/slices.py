"""The slices that this manager owns, and the windows of their queues."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from stanchion.manager.leadership.owner import Owned
from stanchion.manager.window.window import Window


class Slices:
    """The slices whose jobs are dispatched, by queue; one window for all slices of a queue."""

    def __init__(self) -> None:
        self.windows: dict[str, Window] = {}
        self._of: dict[str, list[Owned]] = {}
        """The slices of each queue, by their first lane."""

    def owned(self) -> list[Owned]:
        """Return all slices."""
        return [one for several in self._of.values() for one in several]

    def add(self, owned: Owned) -> None:
        """Begin to dispatch the jobs of a slice."""
        several = [one for one in self._of.get(owned.queue, ()) if one.slice != owned.slice]
        self._of[owned.queue] = sorted([*several, owned], key=lambda one: one.lanes)
        self.windows.setdefault(owned.queue, Window(owned.queue)).take_over(owned.lanes)

    def remove(self, owned: Iterable[Owned]) -> None:
        """Forget slices, and the jobs in their windows."""
        for one in owned:
            left = [other for other in self._of.get(one.queue, ()) if other.slice != one.slice]
            if (window := self.windows.get(one.queue)) is not None:
                window.hand_over(one.lanes)
            if left:
                self._of[one.queue] = left
            else:
                self._of.pop(one.queue, None)
                self.windows.pop(one.queue, None)

    def clear(self) -> None:
        """Forget all."""
        self._of.clear()
        self.windows.clear()

    def of(self, queue: str, lane: int) -> Owned | None:
        """Return the slice that has this lane, if it is owned."""
        several: Sequence[Owned] = self._of.get(queue, ())
        place = bisect_right(several, lane, key=lambda one: one.lanes[0])
        if not place or several[place - 1].lanes[1] < lane:
            return None
        return several[place - 1]

    def has(self, owned: Owned) -> bool:
        """Return True if this slice is owned, in this epoch."""
        return owned in self._of.get(owned.queue, ())

    def count(self, queue: str) -> int:
        """Return how many slices of a queue are owned."""
        return len(self._of.get(queue, ()))
