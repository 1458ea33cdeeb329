"""Apps that one Python process of Spark keeps for the calls to come.

Spark runs task after task, and the end of batch after batch, in the same processes. An app that opened its store for
each would connect and check the schema each time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.core.concurrency.forks import reset_after_fork

IDLE_SECONDS = 5.0
"""Seconds without a call after which an app is closed: a process of Spark that waits holds no connection."""


@dataclass
class _Kept:
    """An app, the number of calls that use it now, and when the last one ended."""

    app: Stanchion
    users: int = 0
    idle_since: float = 0.0


class KeptApps:
    """The apps of this process, by their opening arguments. A forked child starts with none."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        reset_after_fork(self)

    def begin(self) -> None:
        """Start with no apps: connections belong to the process that opened them."""
        # Reentrant: the garbage collector may end the block of an abandoned generator while this thread has the lock.
        self._lock = threading.RLock()
        self._kept: dict[object, _Kept] = {}
        self._closer: threading.Timer | None = None

    @contextmanager
    def lend(self, key: object, opened: Callable[[], Stanchion]) -> Iterator[Stanchion]:
        """Lend the app of this key for the block; `opened` makes it if there is none."""
        with self._lock:
            known = self._kept.get(key)
            kept = self._kept[key] = known or _Kept(opened())
            kept.users += 1
        try:
            if known is not None:
                _ = context_of(kept.app).fresh_store  # sees queues that were partitioned meanwhile
            yield kept.app
        finally:
            self._give_back(kept)

    def _give_back(self, kept: _Kept) -> None:
        with self._lock:
            kept.users -= 1
            kept.idle_since = time.monotonic()
            if not kept.users and self._closer is None:
                self._close_later(self._idle_seconds)

    def _close_later(self, seconds: float) -> None:
        self._closer = threading.Timer(seconds, self._close_idle)
        self._closer.daemon = True
        self._closer.start()

    def _close_idle(self) -> None:
        """Close the apps that were idle for long enough; look again later for the others."""
        with self._lock:
            idle = {key: one.idle_since + self._idle_seconds for key, one in self._kept.items() if not one.users}
            now, self._closer = time.monotonic(), None
            closed = [self._kept.pop(key) for key, until in idle.items() if until <= now]
            if later := [until for until in idle.values() if until > now]:
                self._close_later(min(later) - now)
        for one in closed:
            one.app.close()


APPS = KeptApps()
"""Those of this process."""
