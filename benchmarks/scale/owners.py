"""Who serves which slice, and how long none does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from benchmarks.scale.events import Events
from benchmarks.scale.leading import Leader


class Gap(NamedTuple):
    """A slice that changed hands: since when none served it, and for how long."""

    name: str
    since: float
    seconds: float


class Owners:
    """Of all slices. Raises AssertionError if two managers serve one."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.of: dict[str, Leader] = {}
        self.gaps: list[Gap] = []
        self._idle_since: dict[str, float] = {}
        self.begun: Callable[[Leader, Iterable[str]], None] = lambda _leader, _names: None

    def begin(self, leader: Leader, names: Iterable[str]) -> None:
        """A manager serves slices from now on."""
        now = self._events.now
        for name in names:
            assert name not in self.of, f"{name} is served twice"
            self.of[name] = leader
            since = self._idle_since.pop(name, None)
            if since is not None:
                self.gaps.append(Gap(name, since, now - since))
        self.begun(leader, names)

    def stop(self, leader: Leader, names: Iterable[str]) -> None:
        """A manager no longer serves slices, if it did."""
        for name in names:
            if self.of.get(name) is leader:
                del self.of[name]
                self._idle_since[name] = self._events.now

    def by_host(self) -> Counter[int]:
        """Return the number of slices that each process serves."""
        return Counter(leader.host for leader in self.of.values())
