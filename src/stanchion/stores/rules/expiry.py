"""Queues that expire: when nobody has used one for so long, maintenance removes it with all that it holds.

All that happens in a queue is counted anyway, so a use costs no write of its own. Maintenance notes beside each queue
that expires how many events it has had, and when it saw that:

    more events than noted ──► note them, at this moment; those within a minute together
    none for so long ────────► (1) its history goes, in rounds, (2) the rest, unless anything happened meanwhile

So it is removed up to a minute, and the interval of the maintenance, late, and never early. A queue with a live job is
in use, unless it expires with its jobs; one with a running job always is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings

_ROUNDS = 100
_TOGETHER = 60.0
_SHARE = 16


class Use(NamedTuple):
    """How many events a queue had had at the moment `at`."""

    events: int
    at: int


class Expiring(NamedTuple):
    """A queue that expires, how many events it has had so far, and its use as it was noted last."""

    settings: QueueSettings
    events: int
    noted: Use | None

    def to_note(self, now: int) -> Use | None:
        """Return the use to be noted, if any."""
        if self.noted is not None:
            together = min(_TOGETHER, self._seconds / _SHARE) * SECOND
            if self.events == self.noted.events or now - self.noted.at < together:
                return None
        return Use(self.events, now)

    def unused(self, now: int) -> Use | None:
        """Return the last use, when that was too long ago."""
        if self.noted is None or self.events != self.noted.events:
            return None
        return self.noted if now - self.noted.at >= self._seconds * SECOND else None

    @property
    def _seconds(self) -> float:
        return self.settings.expires or 0.0


class ExpiringStore(Protocol):
    """What removing such queues asks of a store."""

    @abstractmethod
    def expiring(self) -> Iterable[Expiring]:
        """Return the queues that expire."""

    @abstractmethod
    def note_use(self, queue: str, use: Use) -> None:
        """Note the use of a queue."""

    @abstractmethod
    def remove_unused(self, settings: QueueSettings, noted: Use) -> None:
        """Remove a queue, with its jobs where it expires with them, unless anything has happened since `noted`."""

    @abstractmethod
    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int: ...

    @abstractmethod
    def now(self) -> int: ...


def remove_expired(store: ExpiringStore) -> None:
    """Note what was used, and remove what has expired."""
    for one in store.expiring():
        now, name = store.now(), one.settings.name
        if (use := one.to_note(now)) is not None:
            store.note_use(name, use)
        elif (noted := one.unused(now)) is not None and without_history(store, name, (now - noted.at) / SECOND):
            store.remove_unused(one.settings, noted)


def without_history(store: ExpiringStore, queue: str, age: float) -> bool:
    """Delete history; False when there is more of it than there is time for now."""
    return any(store.purge(queue, age) == 0 for _ in range(_ROUNDS))
