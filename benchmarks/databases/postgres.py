"""A PostgreSQL server, and what its own counters say of a measurement."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from benchmarks.contenders import Place
from benchmarks.databases.base import Counters

SERVER_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
"""Other than the defaults: no checkpoint falls into some measurements and not into others."""


class Postgres:
    """Makes a fresh database for each measurement and reads the server's counters."""

    def __init__(self, url: str) -> None:
        """`url` names a database to administer from; measurements never happen in it."""
        self._admin = psycopg.connect(url, autocommit=True)
        self._numbers = itertools.count()

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    @contextmanager
    def fresh(self) -> Iterator[Place]:
        database = f"stanchion_bench_{next(self._numbers)}"
        self._execute("drop database if exists {} with (force)", database)
        self._execute("create database {}", database)
        try:
            yield Place(self._url(database))
        finally:
            self._execute("drop database if exists {} with (force)", database)

    def counters(self, place: Place) -> Counters:
        database = psycopg.conninfo.conninfo_to_dict(place.url)["dbname"]
        self._await_departure(str(database))  # a session reports at its end
        (commits,) = self._row("select xact_commit from pg_stat_database where datname = %s", database)
        (wal,) = self._row("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return {"commits": float(commits), "WAL B": float(wal)}

    def tidy(self, place: Place) -> None:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("vacuum analyze")

    def facts(self) -> dict[str, str]:
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
        return {f"PostgreSQL {name}": str(self._row("select current_setting(%s)", name)[0]) for name in names}

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
def server(url: str | None) -> Iterator[Postgres]:
    """Use the server at that URL, or one started for this run: fsync on, its own cluster."""
    if url is not None:
        database = Postgres(url)
        try:
            yield database
        finally:
            database.close()
        return
    from tests.servers.postgres import PostgresServer

    with PostgresServer(settings=SERVER_SETTINGS) as own, server(own.url()) as database:
        yield database
