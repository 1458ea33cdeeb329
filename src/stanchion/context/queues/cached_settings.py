"""The settings of the queues that a process uses, read again once they are a second old."""

from __future__ import annotations

import threading
import time
from collections.abc import Set
from itertools import islice

from stanchion.context.queues.settings import concern_new_jobs
from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings

SETTINGS_SECONDS = 1.0
"""Seconds that a process caches settings."""

QUEUES_REMEMBERED = 10_000
QUEUES_AT_ONCE = 100


class CachedSettings:
    """The settings that concern more than claims, in one process: lanes, time-outs, order keys,
    schemas.

    While one thread reads settings again, others use the known ones.
    """

    def __init__(self) -> None:
        self._store: Store | None = None
        self._read: dict[str, tuple[float, QueueSettings | None]] = {}
        """When a queue was read, and its settings if any of them concerns more than claims."""
        self.unknown_partitions = False
        """A queue was read that has partitions, which the store in use does not know of."""
        reset_after_fork(self)

    def begin(self) -> None:
        """Start with no thread that reads."""
        self._reading = threading.Lock()

    def forget(self) -> None:
        """Drop all, as this process has just changed some."""
        self._read = {}

    def of(self, store: Store, queues: Set[str]) -> dict[str, QueueSettings]:
        """Return the settings of the given queues that affect new jobs; leave out the other queues."""
        if store is not self._store or len(self._read) > QUEUES_REMEMBERED:
            self._store, self._read = store, {}
        now, read = time.monotonic(), self._read
        for queue in queues:  # no comprehensions: every push runs this
            if queue not in read:
                self._refresh(store, read, queues, now)
                break
            if now - read[queue][0] > SETTINGS_SECONDS and self._reading.acquire(blocking=False):
                try:
                    self._refresh(store, read, queues, now)
                finally:
                    self._reading.release()
                break
        found = {}
        for queue in queues:
            if (settings := read[queue][1]) is not None:
                found[queue] = settings
        return found

    def _refresh(
        self, store: Store, read: dict[str, tuple[float, QueueSettings | None]], queues: Set[str], now: float
    ) -> None:
        old = {queue for queue in queues if queue not in read or now - read[queue][0] > SETTINGS_SECONDS}
        # Refresh other queues that this process uses along with these, to save calls.
        others = (queue for queue, (read_at, _) in list(read.items()) if now - read_at > SETTINGS_SECONDS)
        old.update(islice(others, QUEUES_AT_ONCE))
        stored = store.queues(old)
        if any(one.partitioned and one.partitions == 1 and not one.key_partitions for one in stored):
            self.unknown_partitions = True
        found = {settings.name: settings for settings in stored if _concern_more(settings)}
        read.update((queue, (now, found.get(queue))) for queue in old)


def _concern_more(settings: QueueSettings) -> bool:
    return concern_new_jobs(settings) or settings.schema_after is not None
