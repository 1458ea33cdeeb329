"""Forks of a process that has a SQLite file open.

The locks of SQLite belong to a process. The library's record of them is copied by a fork: a connection that the child
opens would share the locks in that record, which only the parent has. The parent's last close would then delete the
write-ahead log in use by the child, whose later commits would be lost. A copied write lock would never be free.

So the connections are closed before a fork. Those in use are waited for; if one remains, the child can't use the file.
An import in another thread is waited for, too: its lock would never be free in the child.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from stanchion.core.concurrency.forks import guard_forks
from stanchion.errors import StoreUnavailable

_WAIT_SECONDS: Final = 1.0
"""Seconds that a fork waits for connections in use."""
_IMPORT_SECONDS: Final = 10.0
"""Seconds that a fork waits for an import."""
_POLL_SECONDS: Final = 0.001


class Tracked(sqlite3.Connection):
    """A connection that a gate knows while it is open."""

    among: WeakValueDictionary[int, Tracked] | None = None

    def close(self) -> None:
        super().close()
        if self.among is not None:
            self.among.pop(id(self), None)


class ForkGate:
    """Hold `lock` while opening a connection, and `track` it; and while importing a part of the store."""

    def __init__(self) -> None:
        self._idle: list[Callable[[], None]] = []
        self._open: WeakValueDictionary[int, Tracked] = WeakValueDictionary()
        self._left: list[Tracked] = []
        self._copied = False
        self._forking: int | None = threading.get_ident()
        guard_forks(self)

    def closes(self, close_idle: Callable[[], None]) -> None:
        """Call `close_idle` before a fork, repeatedly while connections are open. It must wait for nothing."""
        self._idle.append(close_idle)

    def track(self, connection: Tracked) -> None:
        """Let a fork wait until this connection is closed."""
        connection.among = self._open
        self._open[id(connection)] = connection

    def must_be_safe(self, path: str) -> None:
        """Raise StoreUnavailable in a child that was forked while a connection was open."""
        if self._copied:
            raise StoreUnavailable(
                f"this process was forked while a connection to {path} was in use, and SQLite can't lock the file "
                f"here: fork outside transactions of the store, or start the process by spawn"
            )

    def before_fork(self) -> None:
        if self.lock.acquire(timeout=_IMPORT_SECONDS):
            self._forking = threading.get_ident()
            end = time.monotonic() + _WAIT_SECONDS
            while True:
                for close_idle in self._idle:
                    close_idle()
                if not self._open or time.monotonic() > end:
                    break
                time.sleep(_POLL_SECONDS)
        # The child must never close them: another thread of the parent may be using one.
        self._left = [one for one in (ref() for ref in self._open.valuerefs()) if one is not None]

    def after_fork(self) -> None:
        self._left = []
        if self._forking == threading.get_ident():
            self._forking = None
            self.lock.release()

    def begin(self) -> None:
        """Make a lock that is free, and remember whether a connection of the parent was copied."""
        self._copied = self._copied or bool(self._open) or self._forking != threading.get_ident()
        self.lock = threading.RLock()  # a signal handler may use the store
        self._forking, self._open = None, WeakValueDictionary()
