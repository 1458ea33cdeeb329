"""The clock that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

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


START: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Where the clock of a test begins unless told otherwise: a Monday at midnight, so that each run has the same ticks."""


def url_of_test(start: datetime = START) -> str:
    """Return the URL of a store in memory whose clock begins at `start`, and stands still."""
    return f"memory://?clock={micros(aware(start, 'start'))}"
