"""Spacing of polls by their cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

_SHARE = 0.05
"""The most of the time that goes into looks."""

_QUICK = 0.05
"""Seconds: a poll that takes less is never delayed."""


class Pace:
    """Decides when a poll is due again: soon after a quick one, late after a slow one."""

    def __init__(self) -> None:
        self._next = 0.0
        self.quick = True
        """Whether the last look was quick."""

    @property
    def due(self) -> bool:
        """Whether the next poll may be made."""
        return monotonic() >= self._next

    @contextmanager
    def look(self) -> Iterator[None]:
        """Measure a poll, also one that fails."""
        began = monotonic()
        try:
            yield
        finally:
            ended = monotonic()
            took = ended - began
            self.quick = took <= _QUICK
            self._next = ended if self.quick else ended + took / _SHARE
