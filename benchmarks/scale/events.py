"""Simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any


class Events:
    """What happens when. What is planned for one moment happens in the order in which it was planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self._planned: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def after(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        """Plan something."""
        heappush(self._planned, (self.now + seconds, next(self._numbers), do, arguments))

    def run(self, until: float) -> None:
        """Let time pass."""
        planned = self._planned
        while planned and planned[0][0] <= until:
            self.now, _, do, arguments = heappop(planned)
            do(*arguments)
        self.now = max(self.now, until)

    def run_out(self) -> None:
        """Go on until nothing is planned."""
        while self._planned:
            self.run(self._planned[0][0])


class Pause(float):
    """Seconds to pause, or until woken."""


Steps = Iterator[float]
"""Yields seconds until it goes on, or a `Pause`."""


class Task:
    """Steps that go on in simulated time, until they end or are killed."""

    def __init__(self, events: Events, steps: Steps) -> None:
        self._events, self._steps = events, steps
        self._waits, self._pausing = 0, False
        events.after(0.0, self._go_on, 0)

    def _go_on(self, wait: int) -> None:
        if wait != self._waits:
            return
        self._waits += 1
        self._pausing = False
        seconds = next(self._steps, None)
        if seconds is not None:
            self._pausing = isinstance(seconds, Pause)
            self._events.after(seconds, self._go_on, self._waits)

    def wake(self) -> None:
        """End a pause."""
        if self._pausing:
            self._pausing = False
            self._waits += 1
            self._events.after(0.0, self._go_on, self._waits)

    def kill(self) -> None:
        """Go on no more."""
        self._waits, self._pausing = -1, False
