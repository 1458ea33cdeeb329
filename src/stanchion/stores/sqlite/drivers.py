"""Callers' connections to SQLite: sqlite3 and aiosqlite."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from stanchion.errors import CannotJoin
from stanchion.stores.sql.engine.awaited import AsyncDriver
from stanchion.stores.sql.engine.dialect import AUTOCOMMIT
from stanchion.stores.sql.engine.runner import Given, Row
from stanchion.stores.sqlite.cursor import FittingCursor

T = TypeVar("T")

NAMES = "sqlite3 or aiosqlite"


def must_be_open(connection: Any) -> None:
    """Raise CannotJoin if a connection commits each statement by itself."""
    by_itself = connection.isolation_level is None
    if sys.version_info >= (3, 12):
        auto = getattr(connection, "autocommit", sqlite3.LEGACY_TRANSACTION_CONTROL)
        by_itself = auto is True or (auto == sqlite3.LEGACY_TRANSACTION_CONTROL and by_itself)
    if by_itself and not connection.in_transaction:
        raise CannotJoin(AUTOCOMMIT)


def async_driver(connection: object) -> AsyncDriver | None:
    """Return an asynchronous driver for a caller's connection; None for one that is of none."""
    aiosqlite = sys.modules.get("aiosqlite")
    if aiosqlite is None or not isinstance(connection, aiosqlite.Connection):
        return None
    must_be_open(connection)
    return _Aiosqlite(connection)


class _Connection(Protocol):
    """What is used of a connection of aiosqlite."""

    _conn: sqlite3.Connection

    async def _execute(self, work: Callable[[], T]) -> T: ...


class _Aiosqlite:
    """Runs each statement in the thread of the connection, with a cursor of the store."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def rows(self, sql: str, params: Given) -> list[Row]:
        def run() -> list[Row]:
            return self._cursor(sql, params).fetchall()

        return await self._connection._execute(run)

    async def change(self, sql: str, params: Given) -> int:
        def run() -> int:
            return self._cursor(sql, params).rowcount

        return await self._connection._execute(run)

    def _cursor(self, sql: str, params: Given) -> FittingCursor:
        cursor = self._connection._conn.cursor(FittingCursor)
        cursor.row_factory = None
        return cursor.execute(sql, params)
