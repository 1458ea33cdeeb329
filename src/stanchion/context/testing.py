"""The clock that a test moves."""

from __future__ import annotations

from datetime import datetime

from stanchion.core.checks import aware
from stanchion.core.times import micros, moment
from stanchion.stores.protocol import Store


class Clock:
    """The clock of a store under test; it moves only by `advance`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._store.clock_offset += seconds

    def now(self) -> datetime:
        """Return the time it shows."""
        return moment(self._store.now())


def url_of_test(start: datetime | None = None) -> str:
    """Return the URL of a store in memory whose clock begins at `start`, or now, and stands still."""
    return f"memory://?clock={'frozen' if start is None else micros(aware(start, 'start'))}"
