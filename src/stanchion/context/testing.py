"""Tests of code that enqueues: a store in memory with a clock that the test moves, and a look at what was enqueued."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from stanchion.core.times import moment
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store

if TYPE_CHECKING:
    from stanchion.app import Stanchion


class Clock:
    """The clock of a store under test; it moves only when told to."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._store.skew += seconds

    def now(self) -> datetime:
        """Return the time it shows."""
        return moment(self._store.now())


@contextmanager
def tested(app: Stanchion) -> Iterator[Clock]:
    """Have the app work on a fresh store in memory, and give its clock."""
    store = open_store("memory://?clock=frozen")
    with app.on_store(store):
        yield Clock(store)
