"""The file of a SQLite store, and what becomes of it while processes have it open.

A connection goes on with the file that it has opened, also when that is deleted, moved or replaced meanwhile: what it
writes is lost then. So each time that a connection is taken, the device and the inode of the path are compared with
those that it had when the connection was opened:

    the same                              go on
    another file, with tables of ours     open that one, and forget what was known of the one before
    another file without, or none         StoreUnavailable, which says what happened, until there is one again
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from stanchion.core.forks import reset_after_fork
from stanchion.errors import StoreUnavailable

log = logging.getLogger("stanchion.stores")

Place = tuple[int, int]
"""The device and the inode of a file."""


class StoreFile:
    """A path, and the file that was opened there first. `version`: that of the tables which another one must have."""

    def __init__(self, path: str, version: int) -> None:
        self.path = os.path.abspath(path)  # whatever the folder of the process is later
        self._version = version
        self._opened: Place | None = None
        self._replaced: list[Callable[[], None]] = []
        reset_after_fork(self)

    def begin(self) -> None:
        """Have a lock that nobody holds."""
        self._taking_over = threading.Lock()

    def when_replaced(self, forget: Callable[[], None]) -> None:
        """Call this whenever another file is opened at the path."""
        self._replaced.append(forget)

    def place(self) -> Place | None:
        """Return which file is at the path now."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def accept(self) -> None:
        """Take whatever is at the path for the store's file; if there is none, the next connection makes it."""
        before, self._opened = self._opened, self.place()
        if before not in (None, self._opened):
            self._forget()

    def _forget(self) -> None:
        for forget in self._replaced:
            forget()

    def connect(self, **options: Any) -> tuple[sqlite3.Connection, Place | None]:
        """Open the file, and return which it is; StoreUnavailable where it is not that of before, and none of ours."""
        with self._taking_over:
            while True:
                found = self._found()
                # Only the first connection makes the file: a later one would hide that it is gone.
                connection = self.open("rwc" if self._opened is None else "rw", **options)
                if found is None or self.place() == found:
                    self._opened = found or self.place()
                    return connection, self._opened
                connection.close()  # which of the two it has opened is not known

    def check(self) -> None:
        """Take over a file that has replaced the one of before; StoreUnavailable where there is none of ours."""
        with self._taking_over:
            self._found()

    def _found(self) -> Place | None:
        found = self.place()
        if self._opened is not None and found != self._opened:
            self._take_over(found)
        return found

    def open(self, mode: str = "rw", **options: Any) -> sqlite3.Connection:
        """Open what is at the path, without making it."""
        connection: sqlite3.Connection = sqlite3.connect(f"{Path(self.path).as_uri()}?mode={mode}", uri=True, **options)
        return connection

    def _take_over(self, found: Place | None) -> None:
        if found is None:
            raise StoreUnavailable(
                f"the file {self.path} was deleted or moved while this process had it open; put it back, or make a new "
                f"one: stanchion setup --url ..."
            )
        try:
            with closing(self.open()) as connection:
                ((version,),) = connection.execute("SELECT version FROM stanchion_meta").fetchall() or [(None,)]
        except sqlite3.Error as error:
            raise self._not_ours(str(error)) from error
        if version != self._version:
            raise self._not_ours(f"its tables are of version {version}")
        log.warning("the file %s was replaced while this process had it open; going on with the new one", self.path)
        self._opened = found
        self._forget()

    def _not_ours(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"the file {self.path} was replaced by one without tables of this release while this process had it open "
            f"({why}); put the right one back, or make the tables: stanchion setup --url ..."
        )
