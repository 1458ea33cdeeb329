"""How many jobs wait for a stream, for Spark's progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from stanchion.errors import StanchionError

_SHARE = 0.05
"""Maximum share of time spent counting."""

_QUICK = 0.05
"""Seconds: a poll that takes less is never delayed."""


class Pace:
    """Decides when a poll is due again: soon after a quick one, late after a slow one."""

    def __init__(self) -> None:
        self._next = 0.0
        self.quick = True
        """Whether the last poll was quick."""

    @property
    def due(self) -> bool:
        """Whether the next poll may be made."""
        return monotonic() >= self._next

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure a poll, also one that fails."""
        began = monotonic()
        try:
            yield
        finally:
            ended = monotonic()
            took = ended - began
            self.quick = took <= _QUICK
            self._next = ended if self.quick else ended + took / _SHARE


class Backlog:
    """The last count of ready jobs: fresh where counting is quick, else by a thread while the query runs.

    Many jobs, which take long to count, are counted less often.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._pace = Pace()
        self._known: int | None = None
        self._counting: threading.Thread | None = None

    def size(self) -> int | None:
        """Return the last count; None before the first, or if the last one failed."""
        if self._counting is not None and not self._counting.is_alive():
            self._counting = None
        if self._counting is None and self._pace.due:
            if self._pace.quick:
                self._look()
            else:
                self._counting = threading.Thread(target=self._look, name="stanchion-backlog", daemon=True)
                self._counting.start()
        return self._known

    def _look(self) -> None:
        with self._pace.measured():
            try:
                self._known = self._count()
            except StanchionError:  # the query itself reports it
                self._known = None
