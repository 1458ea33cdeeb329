"""Wake-up across processes by the change counter of a SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import closing
from typing import NamedTuple

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import StoreUnavailable
from stanchion.stores.sqlite.processes.file import Place, StoreFile
from stanchion.stores.sqlite.processes.looks import Board, SharedLooks
from stanchion.stores.wakeup.listeners import READY_SECONDS, EventListener, Listeners

_EAGER_SECONDS, _IDLE_SECONDS = 0.001, 0.004
_EAGER_FOR = 0.25


class Change(NamedTuple):
    """A reading of the change counter, comparable with others of the same connection only."""

    place: Place | None
    connection: int
    counter: int


class _ChangeCounter:
    """Reads the change counter by a separate connection. Hold `lock` while using it."""

    def __init__(self, file: StoreFile) -> None:
        self._file, self._opened = file, 0
        self._place: Place | None = None
        self.lock = threading.Lock()
        self.connection: sqlite3.Connection | None = None

    def read(self, place: Place | None) -> Change | None:
        """Return a reading of the file at this place; None if it can't be read: polling is the fallback then."""
        if place != self._place:
            self._drop()
        try:
            if self.connection is None:
                self.connection = self._file.open(isolation_level=None, check_same_thread=False)
                self._place, self._opened = place, self._opened + 1
            return Change(place, self._opened, int(self.connection.execute("PRAGMA data_version").fetchone()[0]))
        except (sqlite3.Error, StoreUnavailable):  # the file does not exist yet, or is being removed
            self._drop()
            return None

    def close_idle(self) -> None:
        """Close the connection if it is idle."""
        if self.lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self.lock.release()

    def close(self) -> None:
        """Close the connection once it is free."""
        with self.lock:
            self._drop()

    def _drop(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class FileWatch:
    """One thread that reads `PRAGMA data_version` while there are listeners.

    The pragma reads a counter in shared memory that each commit of another connection increments. A read takes a few
    microseconds, so one every 4 ms costs well under 1 % of a core. Waiting claimers are woken if a poll, which the
    processes share, finds work for them; all other listeners by each change.
    """

    def __init__(self, file: StoreFile, first_due: str) -> None:
        """`first_due`: the query for when the next job of `queues` is due."""
        self._file, self._first_due = file, first_due
        self.listeners = Listeners(connected=lambda _listener: self._reads)
        reset_after_fork(self)

    def begin(self) -> None:
        """Drop all listeners."""
        self._lock = threading.Lock()
        self._counter = _ChangeCounter(self._file)
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

    def close_idle(self) -> None:
        """Close the connection if it is idle; the next opening counts as a change."""
        self._counter.close_idle()

    def _watch(self) -> None:
        with closing(Board(self._file.path)) as board, closing(_ChangeCounter(self._file)) as counter:
            self._counter = counter
            self._watch_until_unwanted(board, counter)

    def _watch_until_unwanted(self, board: Board, counter: _ChangeCounter) -> None:
        place: Place | None = None
        looks = SharedLooks(board, self._first_due, place)
        seen: Change | None = None
        changed_at = read_at = 0.0
        while self._wanted():
            found = self._file.place()
            if found != place:
                looks = SharedLooks(board, self._first_due, found)
            place, previous, read_at = found, read_at, time.monotonic()
            with counter.lock:
                version = counter.read(place)
                self._reads = version is not None
                version = version or seen
                changed, seen = seen is not None and version != seen, version
                if changed:
                    changed_at = time.monotonic()
                if counter.connection is not None:
                    self._look(looks, counter.connection, previous, read_at, changed=changed)
            self._watching.set()
            time.sleep(_EAGER_SECONDS if time.monotonic() - changed_at < _EAGER_FOR else _IDLE_SECONDS)

    def _look(
        self, looks: SharedLooks, connection: sqlite3.Connection, previous: float, read_at: float, *, changed: bool
    ) -> None:
        """Wake listeners after a change; waiting claimers if it concerns them, which may be known a little later.

        The counter was read between `read_at` and now, and before that at `previous`.
        """
        try:
            if changed:
                now = time.monotonic()
                concerned = looks.changed(self.listeners.wake_unless_asleep(), connection, previous, now)
            else:
                looks.unchanged(read_at)
                concerned = looks.concerned(connection)
        except sqlite3.Error:  # no answer: each finds out by itself
            concerned = True
        if concerned:
            self.listeners.wake_interchangeable()

    def _wanted(self) -> bool:
        """Return whether there are listeners; if not, the thread ends, and the next listener starts another."""
        with self._lock:
            if not self.listeners:
                self._thread, self._reads = None, False
                return False
            return True
