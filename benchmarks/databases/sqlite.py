"""SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.contenders import Place
from benchmarks.databases.base import Counters


class Sqlite:
    """Gives the path of a database file yet to be made, for each measurement."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self._directory = directory
        self._durable = durable

    @contextmanager
    def fresh(self) -> Iterator[Place]:
        with TemporaryDirectory(prefix="sqlite-", dir=self._directory) as directory:
            yield Place(str(Path(directory, "jobs.db")), self._durable)

    def counters(self, place: Place) -> Counters:
        return {}

    def tidy(self, place: Place) -> None:
        """Nothing is left for later."""

    def facts(self) -> dict[str, str]:
        return {"SQLite": sqlite3.sqlite_version}
