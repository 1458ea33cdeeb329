"""A MariaDB server, and what its own counters say of a measurement."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.servers.mariadb import MariaDBServer

from benchmarks.contenders import Place
from benchmarks.databases.base import Counters

SERVER_SETTINGS = {"innodb-log-file-size": "1G"}
"""Other than the defaults: no checkpoint falls into some measurements and not into others."""

COUNTED = {"commits": "Handler_commit", "redo B": "Innodb_lsn_current"}


class MariaDB:
    """Makes a fresh database for each measurement and reads the server's counters."""

    def __init__(self, server: MariaDBServer) -> None:
        self._server = server
        self._numbers = itertools.count()

    @contextmanager
    def fresh(self) -> Iterator[Place]:
        name = f"stanchion_bench_{next(self._numbers)}"
        try:
            yield Place(self._server.create_database(name))
        finally:
            self._server.drop_database(name)

    def counters(self, place: Place) -> Counters:
        with self._server.connect_as_root() as connection, connection.cursor() as cursor:
            cursor.execute("show global status where variable_name in %s", [list(COUNTED.values())])
            status = {name: float(value) for name, value in cursor.fetchall()}
        return {name: status[variable] for name, variable in COUNTED.items()}

    def tidy(self, place: Place) -> None:
        with self._server.connect_as_root() as connection, connection.cursor() as cursor:
            schema = urlsplit(place.url).path.strip("/")
            cursor.execute("select table_name from information_schema.tables where table_schema = %s", [schema])
            for (table,) in cursor.fetchall():
                cursor.execute(f"analyze table `{schema}`.`{table}`")

    def facts(self) -> dict[str, str]:
        names = ("version", "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_buffer_pool_size")
        with self._server.connect_as_root() as connection, connection.cursor() as cursor:
            cursor.execute("select " + ", ".join(f"@@{name}" for name in names))
            values = cursor.fetchone() or ()
        return {f"MariaDB {name}": str(value) for name, value in zip(names, values, strict=True)}


@contextmanager
def server() -> Iterator[MariaDB]:
    """Start a server for this run: every commit on disk."""
    with MariaDBServer(settings=SERVER_SETTINGS) as own:
        yield MariaDB(own)
