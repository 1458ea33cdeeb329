"""One connection of the standard library to the file of a store, for calls that need no SQLAlchemy."""

from __future__ import annotations

import sqlite3
import threading
from typing import Final

from stanchion.core.forks import reset_after_fork
from stanchion.stores.sqlite.connections import BUSY_SECONDS, prepare
from stanchion.stores.sqlite.file import Place, StoreFile

_OF_PARENTS: Final[list[sqlite3.Connection]] = []
"""Connections copied by a fork, never closed here: another thread of the parent may have been using one."""


class OwnConnection:
    """A connection opened at first use, whose statements wait for no lock. Hold `lock` while using it."""

    def __init__(self, file: StoreFile, synchronous: str) -> None:
        self._file, self._synchronous = file, synchronous
        self._connection: sqlite3.Connection | None = None
        self._place: Place | None = None
        reset_after_fork(self)

    def begin(self) -> None:
        """Forget the connection of the parent."""
        self.lock = threading.Lock()
        if self._connection is not None:
            _OF_PARENTS.append(self._connection)
            self._connection = None

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
        """Close the connection after an error, which rolls its transaction back; keep it if a lock was not free."""
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        if self._connection is not None and (self._connection.in_transaction or not busy):
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the connection once it is free; a later call opens it again."""
        with self.lock:
            self._drop()
