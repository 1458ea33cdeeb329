"""Running statements, on our own connections and on the caller's.

A statement is built once with SQLAlchemy Core. On a DBAPI connection it is compiled once and run on the
bare cursor, which costs a tenth of what the full machinery does; on a caller's SQLAlchemy connection,
whose driver may be another one, it goes through SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Executable
from sqlalchemy.engine import Connection as AlchemyConnection
from sqlalchemy.engine import Dialect

Row = tuple[Any, ...]
Params = Mapping[str, Any]


class Runner(Protocol):
    """Runs statements in whatever transaction is open."""

    def rows(self, statement: Executable, params: Params | None = None) -> list[Row]:
        """Run a statement; return its rows."""

    def change(self, statement: Executable, params: Params | None = None) -> int:
        """Run a statement; return the number of rows it changed."""

    def change_each(self, statement: Executable, batch: Sequence[Params]) -> int:
        """Run a statement once for each set of parameters; return the number of rows changed in all."""


class Compiler:
    """Turns statements into the driver's SQL, each once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._cache: dict[Executable, tuple[str, dict[str, Any], tuple[str, ...] | None]] = {}

    def compiled(self, statement: Executable) -> tuple[str, dict[str, Any], tuple[str, ...] | None]:
        """Return the SQL, the values of its fixed parameters, and the order of all where they go by position."""
        known = self._cache.get(statement)
        if known is None:
            done = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]
            fixed = {name: value for name, value in done.params.items() if value is not None}
            order = tuple(done.positiontup) if done.positiontup is not None else None
            known = self._cache[statement] = (str(done), fixed, order)
        return known


class CursorRunner:
    """Runs statements on a DBAPI cursor. `given` are parameters that any statement may use."""

    def __init__(self, cursor: Any, compiler: Compiler, given: Params) -> None:
        self.cursor, self._compiler, self._given = cursor, compiler, given

    def rows(self, statement: Executable, params: Params | None = None) -> list[Row]:
        self._execute(statement, params)
        rows: list[Row] = self.cursor.fetchall()
        return rows

    def change(self, statement: Executable, params: Params | None = None) -> int:
        self._execute(statement, params)
        return int(self.cursor.rowcount)

    def change_each(self, statement: Executable, batch: Sequence[Params]) -> int:
        if not batch:
            return 0
        sql, fixed, order = self._compiler.compiled(statement)
        base = {**self._given, **fixed}
        if order is None:
            self.cursor.executemany(sql, [{**base, **params} for params in batch])
        else:
            self.cursor.executemany(sql, [_positional(order, {**base, **params}) for params in batch])
        return int(self.cursor.rowcount)

    def _execute(self, statement: Executable, params: Params | None) -> None:
        sql, fixed, order = self._compiler.compiled(statement)
        named = {**self._given, **fixed, **(params or {})}
        self.cursor.execute(sql, named if order is None else _positional(order, named))


class AlchemyRunner:
    """Runs statements on a caller's SQLAlchemy connection."""

    def __init__(self, connection: AlchemyConnection, given: Params) -> None:
        self._connection, self._given = connection, given

    def rows(self, statement: Executable, params: Params | None = None) -> list[Row]:
        return [tuple(row) for row in self._connection.execute(statement, self._fitting(statement, params or {}))]

    def change(self, statement: Executable, params: Params | None = None) -> int:
        return int(self._connection.execute(statement, self._fitting(statement, params or {})).rowcount)

    def change_each(self, statement: Executable, batch: Sequence[Params]) -> int:
        return sum(self.change(statement, params) for params in batch)

    def _fitting(self, statement: Executable, params: Params) -> dict[str, Any]:
        names = statement.compile(dialect=self._connection.dialect).params  # type: ignore[attr-defined]
        return {name: value for name, value in {**self._given, **params}.items() if name in names}


def _positional(order: tuple[str, ...], named: Params) -> tuple[Any, ...]:
    return tuple([named[name] for name in order])
