"""Cursors for MariaDB and MySQL: one that is strict, and such as send several statements in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pymysql
from pymysql.cursors import RE_INSERT_VALUES, Cursor

_CUT = frozenset({1264, 1265, 1366, 1406})  # out of range, truncated, not in the character set, too long

_PACKET = 1_000_000
"""As many characters as are sent together; a server takes 16 MiB, if not told otherwise."""


class StrictCursor(Cursor):
    """Raises where the server only warns, on IGNORE or in a caller's lenient mode, that it cut a value."""

    def execute(self, query: str, args: Any = None) -> int:
        changed = super().execute(query, args)
        self._refuse_cut()
        return changed

    def execute_all(self, statements: Sequence[str]) -> Iterator[tuple[Any, int]]:
        """Run statements in one round trip; yield the rows of each, and how many it has changed.

        The server tells of the last one alone what it has warned of.
        """
        super().execute(";".join(statements))
        for _ in statements[1:]:
            yield self.fetchall(), self.rowcount
            self.nextset()
        self._refuse_cut()
        yield self.fetchall(), self.rowcount

    def _refuse_cut(self) -> None:
        if self.warning_count:
            with self.connection.cursor(Cursor) as beside:
                beside.execute("SHOW WARNINGS")
                for _level, number, message in beside.fetchall():
                    if number in _CUT:
                        raise pymysql.DataError(number, message)


class Batch:
    """Statements that wait until the rows of one are asked for, and go to the server together then."""

    def __init__(self, cursor: StrictCursor) -> None:
        self._cursor = cursor
        self._waiting: list[tuple[LateCursor, bool, str]] = []
        self._size = 0

    def cursor(self) -> LateCursor:
        """Return a cursor whose statements wait."""
        return LateCursor(self, self._cursor)

    def add(self, cursor: LateCursor, sql: str, *, more: bool = False) -> None:
        """Let a statement wait; `more`: what it changes is added to what the one before it has changed."""
        if self._size + len(sql) > _PACKET:
            self.sync()
        self._waiting.append((cursor, more, sql))
        self._size += len(sql)
        if sql.startswith("INSERT IGNORE"):  # which may cut values
            self.sync()

    def sync(self) -> None:
        """Send what waits; each cursor has the answer to its last statement then."""
        if not self._waiting:
            return
        waiting, self._waiting, self._size = self._waiting, [], 0
        answers = self._cursor.execute_all([sql for _, _, sql in waiting])
        for (cursor, more, _), (rows, changed) in zip(waiting, answers, strict=True):
            cursor.answer, cursor.changed = rows, changed + (cursor.changed if more else 0)


class LateCursor:
    """A cursor of a batch."""

    def __init__(self, batch: Batch, cursor: StrictCursor) -> None:
        self._batch, self._cursor = batch, cursor
        self.answer: Any = ()
        self.changed = -1

    def execute(self, query: str, args: Any = None) -> None:
        """Let a statement wait."""
        self._batch.add(self, self._cursor.mogrify(query, args))

    def executemany(self, query: str, args: Iterable[Any]) -> None:
        """Let a statement wait for each of these parameters; an insert goes by as many rows as fit into a packet."""
        insert = RE_INSERT_VALUES.match(query)
        if insert is None:
            statements: Iterable[str] = (self._cursor.mogrify(query, one) for one in args)
        else:
            begin, values, end = insert.group(1) % (), insert.group(2).rstrip(), (insert.group(3) or "") % ()
            rows = (self._cursor.mogrify(values, one) for one in args)
            statements = (f"{begin}{','.join(some)}{end}" for some in _packets(rows))
        for n, sql in enumerate(statements):
            self._batch.add(self, sql, more=n > 0)

    def fetchall(self) -> Any:
        """Return the rows of the last statement."""
        self._batch.sync()
        return self.answer

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement has changed."""
        self._batch.sync()
        return self.changed


def _packets(rows: Iterable[str]) -> Iterator[list[str]]:
    """Yield the rows in batches that fit into a packet."""
    batch: list[str] = []
    size = 0
    for row in rows:
        if batch and size + len(row) > _PACKET:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row)
    if batch:
        yield batch
