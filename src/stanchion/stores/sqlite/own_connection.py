"""One connection of the standard library to the file of a store, for calls that need no SQLAlchemy."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.sqlite.connections import BUSY_SECONDS, prepare
from stanchion.stores.sqlite.file import Place, StoreFile


class OwnConnection:
    """A connection opened at first use, whose statements wait for no lock. Hold `lock` while using it."""

    def __init__(self, file: StoreFile, synchronous: str) -> None:
        self._file, self._synchronous = file, synchronous
        self._connection: sqlite3.Connection | None = None
        self._place: Place | None = None
        file.gate.closes(self._close_idle)
        reset_after_fork(self)

    def begin(self) -> None:
        """Make a lock that is free, and forget the connection of the parent."""
        self.lock = threading.RLock()  # a signal handler may close the store in the middle of a push
        self._connection = None

    def _close_idle(self) -> None:
        if self.lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self.lock.release()

    def opened(self) -> sqlite3.Connection:
        """Return the connection to the file that is at the path now.

        Raises sqlite3.Error, and StoreUnavailable as `StoreFile.connect` does.
        """
        if self._connection is not None and self._place == self._file.place():
            return self._connection
        self._drop()
        connection, self._place = self._file.connect(
            timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            prepare(connection, self._synchronous)
            connection.execute("PRAGMA busy_timeout=0")
        except sqlite3.Error:
            connection.close()
            raise
        self._connection = connection
        return connection

    def failed(self, error: BaseException) -> None:
        """Roll back and close the connection after an error; keep it if a lock was not free."""
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        if self._connection is not None and (self._connection.in_transaction or not busy):
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # A close alone leaves the transaction open as long as the traceback of an error refers to a cursor.
            with suppress(sqlite3.Error):
                connection.rollback()
            connection.close()

    def close(self) -> None:
        """Close the connection once it is free; a later call opens it again."""
        with self.lock:
            self._drop()
