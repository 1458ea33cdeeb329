"""Callers' connections to MariaDB and MySQL: PyMySQL, mysqlclient and asyncmy."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any, Protocol

import pymysql
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS

from stanchion.errors import CannotJoin
from stanchion.stores.mariadb.cursors import refuse_cut
from stanchion.stores.sql.engine.awaited import AsyncDriver
from stanchion.stores.sql.engine.dialect import AUTOCOMMIT
from stanchion.stores.sql.engine.runner import Cursor, Given, Row


class NewConnection(Protocol):
    """What is used of a new connection of PyMySQL."""

    server_version: str

    def cursor(self) -> AbstractContextManager[Cursor]:
        """Return a cursor."""


NAMES = "PyMySQL, mysqlclient or asyncmy"

_WARNINGS = "SHOW WARNINGS"


def is_pymysql(connection: object) -> bool:
    """Return whether this is an open connection of PyMySQL."""
    return isinstance(connection, pymysql.Connection) and connection.open


def mysqlclient_cursor(connection: object) -> MysqlclientCursor | None:
    """Return a cursor on a connection of mysqlclient; None for another one."""
    mysqlclient = sys.modules.get("MySQLdb.connections")  # PyMySQL can stand in for it
    if mysqlclient is None or is_pymysql(connection) or not isinstance(connection, mysqlclient.Connection):
        return None
    if connection.get_autocommit() and not _is_in_transaction(connection):
        raise CannotJoin(AUTOCOMMIT)
    return MysqlclientCursor(connection)


def _is_in_transaction(connection: Any) -> bool:
    # The driver keeps the server's status to itself. MariaDB reports it; MySQL has only its tables of statistics.
    with closing(connection.cursor()) as cursor:
        try:
            cursor.execute("SELECT @@in_transaction")
        except connection.OperationalError:
            return False
        return bool(cursor.fetchone() != (0,))


def must_be_open(connection: Any) -> None:
    """Raise CannotJoin if a connection of PyMySQL or asyncmy commits each statement by itself."""
    if connection.get_autocommit() and not connection.server_status & SERVER_STATUS_IN_TRANS:
        raise CannotJoin(AUTOCOMMIT)


def async_driver(connection: object) -> AsyncDriver | None:
    """Return an asynchronous driver for a caller's connection; None for one that is of none."""
    asyncmy = sys.modules.get("asyncmy.connection")
    if asyncmy is None or not isinstance(connection, asyncmy.Connection):
        return None
    must_be_open(connection)
    return _Asyncmy(connection)


class MysqlclientCursor:
    """A cursor of mysqlclient that is as strict as ours. Its rows are tuples, whatever class the caller prefers."""

    def __init__(self, connection: Any) -> None:
        from MySQLdb.cursors import Cursor

        self._connection = connection
        self._cursor = Cursor(connection)

    def execute(self, query: str, args: object = None) -> int:
        """Run a statement."""
        changed = int(self._cursor.execute(query, args))
        if self._connection.warning_count():
            with closing(self._connection.cursor(type(self._cursor))) as second:
                second.execute(_WARNINGS)
                refuse_cut(second.fetchall())
        return changed

    def executemany(self, query: str, args: Iterable[object]) -> int:
        """Run a statement for each of these parameters."""
        return int(self._cursor.executemany(query, list(args)))

    def fetchall(self) -> object:
        """Return the rows of the last statement."""
        return self._cursor.fetchall()

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed."""
        return int(self._cursor.rowcount)


class _Asyncmy:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, params: Given) -> list[Row]:
        return (await self._run(sql, params))[0]

    async def change(self, sql: str, params: Given) -> int:
        return (await self._run(sql, params))[1]

    async def _run(self, sql: str, params: Given) -> tuple[list[Row], int]:
        from asyncmy.cursors import Cursor

        async with self._connection.cursor(Cursor) as cursor:
            changed = await cursor.execute(sql, _as_tuples(params))
            rows = list(await cursor.fetchall()) if cursor.description else []
            if self._connection._result is not None and self._connection._result.warning_count:
                await cursor.execute(_WARNINGS)
                refuse_cut(await cursor.fetchall())
            return rows, changed


def _as_tuples(params: Given) -> object:
    """Return parameters whose lists are tuples: the driver takes no others."""
    if isinstance(params, Mapping):
        return {name: _as_tuple(value) for name, value in params.items()}
    return tuple(map(_as_tuple, params))


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
