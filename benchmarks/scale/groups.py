"""Group commit: a statement takes all that waits, and the next one what came meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from benchmarks.scale.events import Events

T = TypeVar("T")


class Group(Generic[T]):
    """One loop of a manager, with one connection."""

    def __init__(
        self,
        events: Events,
        wait: float,
        each: float,
        most: int,
        begins: Callable[[Sequence[T]], None] | None,
        stored: Callable[[Sequence[T]], None],
    ) -> None:
        """A statement takes `wait` seconds and `each` for each of its rows, of which there are `most` at most."""
        self._events, self._wait, self._each, self._most = events, wait, each, most
        self._begins, self._stored = begins, stored
        self.waiting: list[T] = []
        self._under_way: list[T] = []
        self._ended = False

    @property
    def busy(self) -> bool:
        """Whether a statement is under way."""
        return bool(self._under_way)

    def add(self, one: T) -> None:
        """Have it stored, at once if no statement is under way."""
        self.waiting.append(one)
        self.begin()

    def begin(self) -> None:
        """Send a statement, if something waits and none is under way."""
        if self._under_way or not self.waiting:
            return
        self._under_way, self.waiting = self.waiting[: self._most], self.waiting[self._most :]
        if self._begins is not None:
            self._begins(self._under_way)
        self._events.after(self._wait + self._each * len(self._under_way), self._answered)

    def _answered(self) -> None:
        if self._ended:
            return
        stored, self._under_way = self._under_way, []
        self.begin()
        self._stored(stored)

    def end(self) -> tuple[list[T], list[T]]:
        """Do no more; return what is under way, and what waits."""
        self._ended = True
        return self._under_way, self.waiting
