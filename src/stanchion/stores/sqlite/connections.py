"""Connections to a SQLite file: their setup, and one of the standard library for calls that need no SQLAlchemy."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from typing import Final

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.rules.undeliverable import NotUtf8
from stanchion.stores.sqlite.processes.file import Place, StoreFile

BUSY_SECONDS: Final = 5.0
"""Seconds that a statement waits for the locks of others, unless it is one that begins a transaction."""

# SQLite's own clock has milliseconds; julianday() carries them through a double without loss.
NOW: Final = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
"""SQL for the clock, in microseconds."""

ARE_UTF8: Final = "stanchion_are_utf8"
"""The name of a function that each connection of this store has."""

_WAL_BYTES = 32 * 1024 * 1024
"""Bytes to which the write-ahead log is truncated when it restarts, after many writers kept it from restarting."""


def prepare(connection: sqlite3.Connection, synchronous: str) -> None:
    """Set up a new connection; `synchronous`: when a commit waits for the disk, in SQLite's words."""
    connection.text_factory = _decoded
    connection.create_function(ARE_UTF8, -1, _are_utf8, deterministic=True)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}")


def _decoded(stored: bytes) -> str:
    """Return a stored text. Other programs may have stored bytes that are not UTF-8; they must not fail the query."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return NotUtf8(stored.decode(errors="replace"))


def _are_utf8(*stored: bytes | None) -> bool:
    """Return whether all of these texts are UTF-8."""
    try:
        for one in stored:
            if one is not None:
                one.decode()
    except UnicodeDecodeError:
        return False
    return True


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
