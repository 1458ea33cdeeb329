"""Upkeep shared by all stores: its time budget, the purge, and the removal of expired queues.

A queue with `expires` is removed with all its contents when it was unused for that long.

All events of a queue are counted anyway, so recording use costs no extra write. For each such queue, maintenance stores
the number of events and when it saw that number:

    more events than stored ──► store the number and the time; at most once a minute
    none for `expires` ───────► (1) delete its history, in rounds, (2) delete the rest, unless an event came

Removal is late by up to a minute plus the maintenance interval, and never early. A queue with a live job is in use,
unless it expires with its jobs; a queue with a running job is always in use.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings

MAINTAIN_SECONDS = 2.0
"""Approximate seconds that one call of `maintain` takes."""


class Budget:
    """The time limit of one round of upkeep."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> bool:
        """True while there is time left."""
        return time.monotonic() < self._until


def purge_each(purge: Callable[[str], int], queues: Iterable[str], portion: int, budget: Budget) -> list[str]:
    """Purge queues in turn, a portion each, until none has a full portion left; return those left when time ran out.

    `purge` deletes up to a portion of a queue's history. Each queue is purged at least once.
    """
    left = [queue for queue in queues if purge(queue) >= portion]
    while left and budget.left:
        left = [queue for queue in left if purge(queue) >= portion]
    return left


# -- queues that expire

_PURGE_ROUNDS_MAX = 100
_STORE_SECONDS = 60.0
_STORES_PER_EXPIRY = 16


Purge = Callable[[str, float], int]
"""Deletes history of a queue older than this many seconds; returns the number of jobs, 0 if none is left."""


class Use(NamedTuple):
    """The number of events that a queue had had at the time `at`."""

    events: int
    at: int


class Expiring(NamedTuple):
    """A queue with `expires`: its events so far, and the use stored last."""

    settings: QueueSettings
    events: int
    recorded: Use | None

    def to_record(self, now: int) -> Use | None:
        """Return the use to store, if any."""
        if self.recorded is not None:
            interval = min(_STORE_SECONDS, self._seconds / _STORES_PER_EXPIRY) * SECOND
            if self.events == self.recorded.events or now - self.recorded.at < interval:
                return None
        return Use(self.events, now)

    def unused(self, now: int) -> Use | None:
        """Return the last use if it is too long ago."""
        if self.recorded is None or self.events != self.recorded.events:
            return None
        return self.recorded if now - self.recorded.at >= self._seconds * SECOND else None

    @property
    def _seconds(self) -> float:
        return self.settings.expires or 0.0


class ExpiringStore(Protocol):
    """The operations that removing expired queues requires of a store."""

    @abstractmethod
    def expiring(self) -> Iterable[Expiring]:
        """Return the queues that have `expires`."""

    @abstractmethod
    def note_use(self, queue: str, use: Use) -> None:
        """Store the use of a queue."""

    @abstractmethod
    def remove_unused(self, settings: QueueSettings, recorded: Use) -> None:
        """Remove a queue, with its jobs if it expires with them, unless an event happened since `recorded`."""

    @abstractmethod
    def now(self) -> int: ...


def remove_expired(store: ExpiringStore, purge: Purge) -> None:
    """Store the use of queues, and remove expired ones."""
    expiring = list(store.expiring())
    now = store.now() if expiring else 0  # one reading for all: an earlier one only keeps a queue for longer
    for one in expiring:
        name = one.settings.name
        if (use := one.to_record(now)) is not None:
            store.note_use(name, use)
        elif (recorded := one.unused(now)) is not None and without_history(purge, name, (now - recorded.at) / SECOND):
            store.remove_unused(one.settings, recorded)


def without_history(purge: Purge, queue: str, age: float) -> bool:
    """Delete history; return False if more is left than one call deletes."""
    return any(purge(queue, age) == 0 for _ in range(_PURGE_ROUNDS_MAX))
