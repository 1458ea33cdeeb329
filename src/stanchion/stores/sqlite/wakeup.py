"""Wake-up across processes by the change counter of a SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterable

from stanchion.core.forks import reset_after_fork
from stanchion.stores.sqlite.file import Place, StoreFile
from stanchion.stores.wakeup.listeners import READY_SECONDS, EventListener, Listeners

_EAGER_SECONDS, _IDLE_SECONDS = 0.001, 0.004
_EAGER_FOR = 0.25


class FileWatch:
    """One thread that reads `PRAGMA data_version` while there are listeners.

    The pragma reads a counter in shared memory that each commit of another connection increments. A read takes a few
    microseconds, so one every 4 ms costs well under 1 % of a core.
    """

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self.listeners = Listeners(connected=lambda _listener: self._reads)
        reset_after_fork(self)

    def begin(self) -> None:
        """Drop all listeners."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._watching = threading.Event()
        self._reads = False

    def listen(
        self, queues: Iterable[str], finished: Iterable[str] | None = None, *, interchangeable: bool = False
    ) -> EventListener:
        """Return a listener that each commit of another connection wakes."""
        with self._lock:
            listener = self.listeners.listen(queues, finished, interchangeable=interchangeable)
            if self._thread is None or not self._thread.is_alive():
                self._watching.clear()
                self._thread = threading.Thread(target=self._watch, name="stanchion-watch", daemon=True)
                self._thread.start()
        # Commits from here on wake the listener; the first read only sets the baseline.
        self._watching.wait(READY_SECONDS)
        return listener

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake the listeners of this process."""
        self.listeners.announce(queues, finished)

    def close(self) -> None:
        """End all waits."""
        self.listeners.close()

    def _watch(self) -> None:
        connection: sqlite3.Connection | None = None
        place: Place | None = None
        seen: tuple[Place | None, int] | None = None
        changed_at = 0.0
        while self._wanted():
            found = self._file.place()
            if connection is not None and found != place:
                connection.close()
                connection = None
            version, place = seen, found
            try:
                connection = connection or self._file.open(isolation_level=None)
                version = place, int(connection.execute("PRAGMA data_version").fetchone()[0])
                self._reads = True
            except sqlite3.Error:  # the file does not exist yet, or is being removed; polling is the fallback
                connection = None
                self._reads = False
            now = time.monotonic()
            if version != seen:
                if seen is not None:
                    changed_at = now
                    self.listeners.wake(None, None)
                seen = version
            self._watching.set()
            time.sleep(_EAGER_SECONDS if now - changed_at < _EAGER_FOR else _IDLE_SECONDS)
        if connection is not None:
            connection.close()

    def _wanted(self) -> bool:
        """Return whether there are listeners; if not, the thread ends, and the next listener starts another."""
        with self._lock:
            if not self.listeners:
                self._thread, self._reads = None, False
                return False
            return True
