"""The semaphores that the code declares, and their storage."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput
from stanchion.stores.rules.capacity.limits import limits_in

if TYPE_CHECKING:
    from stanchion.stores.protocol import Store
    from stanchion.stores.records.jobs import NewJob

MAX_CAPACITY = 1_000_000

SEEN_FOR = 10.0
"""Seconds that a semaphore seen in the store is assumed to exist. A store can lose it, by a failover to a server
that lagged, or a restored backup."""


class DeclaredSemaphores:
    """The semaphores that the code declares, and those known to be stored; of one app in one process."""

    def __init__(self) -> None:
        self.declared: dict[str, int] = {}
        """Capacities by name."""
        self._stored_in: Store | None = None
        self._seen_at = 0.0
        self._missing: set[str] = set()
        self._known: set[str] = set()

    def declare(self, name: str, capacity: int) -> None:
        """Remember a capacity to store. Declaring the same capacity again changes nothing."""
        if self.declared.get(name) != checked_capacity(capacity):
            self.declared[name] = capacity
            self._missing.add(name)

    def store(self, store: Store, tx: object = None) -> Store:
        """Store declared semaphores that are new or were lost; return the store."""
        if store is not self._stored_in:  # another one, as in a test
            self._stored_in, self._missing, self._known = store, set(self.declared), set()
            self._seen_at = time.monotonic()
        elif self._known and time.monotonic() - self._seen_at >= SEEN_FOR:
            self._see(store, self.declared)
            self._missing |= self.declared.keys() - self._known
        for name in sorted(self._missing):
            changed = store.set_semaphore(name, self.declared[name], declared=True, tx=tx)
            self._known.add(name)
            # Only after the call, so that a failed one is repeated; and a transaction may be rolled back.
            if not changed or tx is None:
                self._missing.discard(name)
        return store

    def check(self, jobs: Iterable[NewJob], store: Store, tx: object = None) -> None:
        """Refuse jobs that need an undeclared semaphore. Semaphores seen recently are not read again."""
        needed = {name for limits in {job.limits for job in jobs} if limits for name in limits_in(limits).semaphores}
        if not needed:
            return
        self.store(store, tx)
        if not needed <= self._known:
            self._see(store, needed)
            if undeclared := needed - self._known:
                raise unknown(sorted(undeclared))

    def _see(self, store: Store, names: Iterable[str]) -> None:
        seen_at = time.monotonic()
        self._known = {row.name for row in store.semaphores(self._known.union(names))}
        self._seen_at = seen_at


def checked_capacity(capacity: object) -> int:
    """Return a capacity as given, if it is within its bounds."""
    if isinstance(capacity, bool) or not isinstance(capacity, int) or not 0 <= capacity <= MAX_CAPACITY:
        raise InvalidInput(
            f"the capacity of a semaphore must be a whole number from 0 (closed) to {MAX_CAPACITY:,}, not {capacity!r}"
        )
    return capacity


def unknown(names: list[str]) -> InvalidInput:
    """Return the error for undeclared semaphores."""
    return InvalidInput(
        f"no semaphore {', '.join(map(repr, names))}: declare it with app.semaphore({names[0]!r}, capacity=...) in the "
        f"code, or `stanchion semaphores resize {names[0]} N`"
    )
