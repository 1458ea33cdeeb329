"""Fairness among the processes that write to a SQLite file.

SQLite does not queue the waiters for its write lock: each retries, and the process that has just released the lock
often gets it back first. Among many writers some would wait longer than a call may take. So a process that has waited
long locks a file next to the store's. The others check that lock before they ask for the write lock, and let the
process go first. A stopped process delays each of the others once. On Windows retries alone decide who writes next.
"""

from __future__ import annotations

import math
import os
import time

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.sqlite.processes.file_locks import locked, opened, unlock

LONG_SECONDS = 0.25
"""Seconds after which a writer asks the others to let it go first."""
GIVE_WAY_SECONDS = 2.0
"""Seconds that a call lets another writer go first. If it gets the write lock then, the request is unused, and is
ignored for _IGNORE_SECONDS."""
_IGNORE_SECONDS = 30.0
_POLL_SECONDS = 0.1


class WriterQueue:
    """The lock of the process that has waited long, as seen by one process; its file is created on first use."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-writers"
        self._file: int | None = None
        reset_after_fork(self)

    def begin(self) -> None:
        """Forget the open file: its locks, copied by a fork, are the parent's too."""
        if self._file is not None:
            os.close(self._file)
        self._file = None
        self._checked_at = self._ignored_until = -math.inf

    def goes_first(self) -> bool:
        """Return whether another process has asked to go first."""
        now = time.monotonic()
        if now < self._ignored_until or not self._open(now):
            return False
        if not self._lock(shared=True):
            return True
        self.leave()
        return False

    def ignore(self) -> None:
        """Ignore requests to go first for a while."""
        self._ignored_until = time.monotonic() + _IGNORE_SECONDS

    def go_first(self) -> bool:
        """Ask the others to let this process go first; return False if another one has asked before."""
        return self._open(time.monotonic(), make=True) and self._lock(shared=False)

    def leave(self) -> None:
        """Release the lock."""
        if self._file is not None:
            unlock(self._file)

    def _lock(self, *, shared: bool) -> bool:
        assert self._file is not None  # noqa: S101 - it is open
        return locked(self._file, shared=shared)

    def _open(self, now: float, *, make: bool = False) -> bool:
        """Return whether the file is open; opens it if it exists, which is checked now and then, or creates it."""
        if self._file is None and (make or now - self._checked_at > _POLL_SECONDS):
            self._checked_at = now
            self._file = opened(self._path, make=make)
        return self._file is not None
