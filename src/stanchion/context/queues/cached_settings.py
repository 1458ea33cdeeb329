"""The settings of the queues that a process uses, read again once they are a second old."""

from __future__ import annotations

import threading
import time
from collections.abc import Set
from itertools import islice
from typing import NamedTuple

from stanchion.context.queues.settings import concern_new_jobs
from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.fields.queues import restraints
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings

SETTINGS_SECONDS = 1.0
"""Seconds that a process caches settings."""

QUEUES_REMEMBERED = 10_000
QUEUES_AT_ONCE = 100


class Known(NamedTuple):
    """A queue as it was read.

    `settings`: if any of them concerns more than claims. `restrained`: its jobs have to be claimed before they may run.
    `held`: one that runs keeps others out.
    """

    read_at: float
    settings: QueueSettings | None
    restrained: bool
    held: bool


_FORGOTTEN = Known(0.0, None, restrained=True, held=True)


class CachedSettings:
    """The settings that concern more than claims, in one process: lanes, time-outs, order keys,
    schemas.

    While one thread reads settings again, others use the known ones.
    """

    def __init__(self) -> None:
        self._store: Store | None = None
        self._read: dict[str, Known] = {}
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
            if now - read[queue].read_at > SETTINGS_SECONDS and self._reading.acquire(blocking=False):
                try:
                    self._refresh(store, read, queues, now)
                finally:
                    self._reading.release()
                break
        found = {}
        for queue in queues:
            if (settings := read[queue].settings) is not None:
                found[queue] = settings
        return found

    def let_pass(self, store: Store, source: str, target: str) -> bool:
        """Return whether jobs may go from a queue to another without being claimed, as far as settings allow it."""
        self.of(store, {source, target})
        read = self._read
        return not (read.get(target, _FORGOTTEN).restrained or read.get(source, _FORGOTTEN).held)

    def _refresh(self, store: Store, read: dict[str, Known], queues: Set[str], now: float) -> None:
        old = {queue for queue in queues if queue not in read or now - read[queue].read_at > SETTINGS_SECONDS}
        # Refresh other queues that this process uses along with these, to save calls.
        others = (queue for queue, known in list(read.items()) if now - known.read_at > SETTINGS_SECONDS)
        old.update(islice(others, QUEUES_AT_ONCE))
        stored = store.queues(old)
        if any(one.partitioned and one.partitions == 1 and not one.key_partitions for one in stored):
            self.unknown_partitions = True
        found = {settings.name: _known(settings, now) for settings in stored}
        read.update((queue, found.get(queue) or Known(now, None, restrained=False, held=False)) for queue in old)


def _known(settings: QueueSettings, now: float) -> Known:
    held = bool(restraints(settings, held=True))
    restrained = held or bool(restraints(settings, held=False))
    return Known(now, settings if _concern_more(settings) else None, restrained, held)


def _concern_more(settings: QueueSettings) -> bool:
    return concern_new_jobs(settings) or settings.schema_after is not None
