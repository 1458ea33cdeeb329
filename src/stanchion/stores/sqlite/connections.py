"""Set up connections to a SQLite file: the same for every part of the store."""

from __future__ import annotations

import sqlite3
from typing import Final

from stanchion.stores.rules.unreadable import NotUtf8

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
