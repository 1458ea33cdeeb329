"""The file of a SQLite store, and what happens if it is replaced while processes have it open.

A connection keeps the file that it has opened, even if that is deleted, moved or replaced; later writes are lost. So
whenever a connection is taken from the pool, the device and inode of the path are compared with those at its opening:

    the same                              continue
    another file with our tables          open that one, and forget all that was cached of the former
    another file without them, or none    raise StoreUnavailable with the reason, until there is such a file again
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from stanchion.errors import StoreUnavailable
from stanchion.stores.sqlite.processes.fork_gate import ForkGate, Tracked

log = logging.getLogger("stanchion.stores")

Place = tuple[int, int]
"""The device and inode of a file."""


class StoreFile:
    """A path, and the file that was first opened there. `version`: the schema version that another file must have."""

    def __init__(self, path: str, version: int) -> None:
        self.path = os.path.abspath(path)  # independent of later changes of the working directory
        self._version = version
        self._opened: Place | None = None
        self._replaced: list[Callable[[], None]] = []
        self.gate = ForkGate()

    def when_replaced(self, forget: Callable[[], None]) -> None:
        """Call `forget` whenever another file is opened at the path."""
        self._replaced.append(forget)

    def place(self) -> Place | None:
        """Return the device and inode of the file now at the path; None if there is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def accept(self) -> None:
        """Accept any file at the path as the store's; if there is none, the next connection creates it."""
        before, self._opened = self._opened, self.place()
        if before not in (None, self._opened):
            self._forget()

    def _forget(self) -> None:
        for forget in self._replaced:
            forget()

    def connect(self, **options: object) -> tuple[sqlite3.Connection, Place | None]:
        """Open the file, and return its identity too.

        Raises StoreUnavailable if the file was replaced by one without our tables, or this process can't lock it.
        """
        with self.gate.lock:
            self.gate.must_be_safe(self.path)
            while True:
                found = self._found()
                # Only the first connection creates the file: a later one would hide that it is gone.
                connection = self._open("rwc" if self._opened is None else "rw", **options)
                if found is None or self.place() == found:
                    self._opened = found or self.place()
                    return connection, self._opened
                connection.close()  # the file was replaced meanwhile: it is unknown which one was opened

    def check(self) -> None:
        """Accept a file that has replaced the former one; raises StoreUnavailable if it lacks our tables."""
        with self.gate.lock:
            self._found()

    def _found(self) -> Place | None:
        found = self.place()
        if self._opened is not None and found != self._opened:
            self._take_over(found)
        return found

    def open(self, **options: object) -> sqlite3.Connection:
        """Open the file at the path without creating it."""
        with self.gate.lock:
            self.gate.must_be_safe(self.path)
            return self._open("rw", **options)

    def _open(self, mode: str, **options: Any) -> sqlite3.Connection:
        url = f"{Path(self.path).as_uri()}?mode={mode}"
        connection = sqlite3.connect(url, uri=True, factory=Tracked, **options)
        self.gate.track(connection)
        return connection

    def _take_over(self, found: Place | None) -> None:
        if found is None:
            raise StoreUnavailable(
                f"the file {self.path} was deleted or moved while this process had it open; put it back, or make a new "
                f"one: stanchion setup --url ..."
            )
        try:
            with closing(self._open("rw")) as connection:
                ((version,),) = connection.execute("SELECT version FROM stanchion_meta").fetchall() or [(None,)]
        except sqlite3.Error as error:
            raise self._not_ours(str(error)) from error
        if version != self._version:
            raise self._not_ours(f"its tables are of version {version}")
        log.warning("the file %s was replaced while this process had it open; using the new one", self.path)
        self._opened = found
        self._forget()

    def _not_ours(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"the file {self.path} was replaced by one without tables of this release while this process had it open "
            f"({why}); put the right one back, or make the tables: stanchion setup --url ..."
        )
