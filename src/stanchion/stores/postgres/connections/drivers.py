"""Callers' connections to PostgreSQL: psycopg, its asynchronous form, and asyncpg."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, TypeGuard

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from sqlalchemy import Dialect

from stanchion.errors import CannotJoin
from stanchion.stores.sql.engine.awaited import AsyncDriver
from stanchion.stores.sql.engine.dialect import AUTOCOMMIT
from stanchion.stores.sql.engine.runner import Given, Row

NAMES = "psycopg or asyncpg"

_JSON = re.compile(r"CAST\((\$\d+) AS (jsonb?)\)", re.IGNORECASE)
_CHANGED = re.compile(r"\d+$")


class Asyncpg(Protocol):
    """What is used of a connection of asyncpg."""

    def is_in_transaction(self) -> bool:
        """Return whether a transaction is open."""

    async def fetch(self, sql: str, /, *params: object) -> Iterable[Iterable[object]]:
        """Run a statement; return its rows."""

    async def execute(self, sql: str, /, *params: object) -> str:
        """Run a statement; return its status, such as UPDATE 1."""


def async_driver(connection: object) -> AsyncDriver | None:
    """Return an asynchronous driver for a caller's connection; None for one that is of none."""
    if isinstance(connection, psycopg.AsyncConnection):
        must_be_open(connection)
        return _Psycopg(connection)
    if is_asyncpg(connection):
        if not connection.is_in_transaction():
            raise CannotJoin(AUTOCOMMIT)
        return _Asyncpg(connection)
    return None


def must_be_open(connection: psycopg.Connection[object] | psycopg.AsyncConnection[object]) -> None:
    """Raise CannotJoin if a connection commits each statement by itself."""
    if connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
        raise CannotJoin(AUTOCOMMIT)


def is_asyncpg(connection: object) -> TypeGuard[Asyncpg]:
    """Return whether this is a connection of asyncpg, or one from its pool."""
    asyncpg = sys.modules.get("asyncpg")
    return asyncpg is not None and isinstance(connection, asyncpg.Connection)


def asyncpg_dialect(like: Dialect) -> Dialect:
    """Return the dialect that compiles statements for asyncpg, for the server that another one is connected to."""
    from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

    dialect: Dialect = PGDialect_asyncpg()  # type: ignore[no-untyped-call]  # SQLAlchemy's dialects have no types
    dialect.server_version_info = like.server_version_info
    dialect._backslash_escapes = like._backslash_escapes  # type: ignore[attr-defined]  # one of PostgreSQL's own
    return dialect


class _Psycopg:
    def __init__(self, connection: psycopg.AsyncConnection[object]) -> None:
        self._connection = connection

    async def rows(self, sql: str, params: Given) -> list[Row]:
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode(), params)
            return await cursor.fetchall()

    async def change(self, sql: str, params: Given) -> int:
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode(), params)
            return cursor.rowcount


class _Asyncpg:
    def __init__(self, connection: Asyncpg) -> None:
        self._connection = connection

    async def rows(self, sql: str, params: Given) -> list[Row]:
        return [tuple(row) for row in await self._connection.fetch(_as_text(sql), *params)]

    async def change(self, sql: str, params: Given) -> int:
        # Not by execute without parameters, which would allow several statements.
        status = await self._connection.execute(_as_text(sql), *params)
        changed = _CHANGED.search(status)
        return int(changed[0]) if changed else -1


@lru_cache(maxsize=256)
def _as_text(sql: str) -> str:
    """Return a statement whose JSON is sent as text: the caller may have set a codec for JSON, which encodes it."""
    return _JSON.sub(r"CAST(CAST(\1 AS text) AS \2)", sql)
