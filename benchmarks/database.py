"""The PostgreSQL server of a run, and what its own counters say of a measurement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg
from psycopg import sql

SERVER_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
"""Other than the defaults: no checkpoint falls into some measurements and not into others."""


@dataclass(frozen=True)
class Cost:
    """What some jobs cost the server, per job."""

    commits: float
    wal_bytes: float


@dataclass(frozen=True)
class Counters:
    """The counters of the server at one moment."""

    commits: int
    wal_bytes: int

    def cost_since(self, before: Counters, jobs: int) -> Cost:
        """Return what happened since an earlier moment, per job."""
        return Cost((self.commits - before.commits) / jobs, (self.wal_bytes - before.wal_bytes) / jobs)


class Databases:
    """Makes a fresh database for each measurement and reads the server's counters."""

    def __init__(self, url: str) -> None:
        """`url` names a database to administer from; measurements never happen in it."""
        self._admin = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    @contextmanager
    def fresh(self, name: str) -> Iterator[str]:
        """Give the URL of an empty database, dropped afterwards."""
        database = f"stanchion_bench_{name}"
        self._execute("drop database if exists {} with (force)", database)
        self._execute("create database {}", database)
        try:
            yield self._url(database)
        finally:
            self._execute("drop database if exists {} with (force)", database)

    def counters(self, url: str) -> Counters:
        """Read the counters once all clients of that database have left; a session reports at its end."""
        database = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        self._await_departure(str(database))
        (commits,) = self._row("select xact_commit from pg_stat_database where datname = %s", database)
        (wal,) = self._row("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return Counters(int(commits), int(wal))

    def tidy(self, url: str) -> None:
        """Do now what autovacuum would do at some time during the measurement."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum analyze")

    def facts(self) -> dict[str, str]:
        """Return the server's version and what it promises of a commit."""
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
        return {name: str(self._row("select current_setting(%s)", name)[0]) for name in names}

    def _await_departure(self, database: str) -> None:
        query: LiteralString = (
            "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"
        )
        deadline = monotonic() + 10
        while self._row(query, database)[0] and monotonic() < deadline:
            sleep(0.01)

    def _url(self, database: str) -> str:
        info = self._admin.info
        credentials = f"{info.user}:{info.password}" if info.password else info.user
        return f"postgresql://{credentials}@{info.host}:{info.port}/{database}"

    def _row(self, query: LiteralString, *parameters: object) -> tuple[Any, ...]:
        row = self._admin.execute(query, parameters).fetchone()
        assert row is not None
        return row

    def _execute(self, statement: LiteralString, database: str) -> None:
        self._admin.execute(sql.SQL(statement).format(sql.Identifier(database)))


@contextmanager
def server(url: str | None) -> Iterator[Databases]:
    """Use the server at that URL, or one started for this run: fsync on, its own cluster."""
    if url is not None:
        databases = Databases(url)
        try:
            yield databases
        finally:
            databases.close()
        return
    from tests.servers.postgres import PostgresServer

    with PostgresServer(settings=SERVER_SETTINGS) as own, server(own.url()) as databases:
        yield databases
