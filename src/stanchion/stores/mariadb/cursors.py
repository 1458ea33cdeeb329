"""Cursors for MariaDB and MySQL: a strict one, and one that sends several statements in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

import pymysql
from pymysql.cursors import RE_INSERT_VALUES, Cursor

from stanchion.errors import InvalidInput
from stanchion.stores.mariadb.errors import SMALLER_PACKET
from stanchion.stores.mariadb.packets import PACKET, packets, size_of

_CUT = frozenset({1264, 1265, 1366, 1406})  # out of range, truncated, not in the character set, too long
_SURELY_FITS = 4_000
"""Maximum characters of a statement sent without reading the server's limit."""

_limits: WeakKeyDictionary[pymysql.Connection[Cursor], int] = WeakKeyDictionary()
"""The server's `max_allowed_packet` by connection, once it has sent something large; it lasts with the connection."""


class StrictCursor(Cursor):
    """Raises an error if the server cut a value with only a warning, on IGNORE or in a caller's lenient mode."""

    def execute(self, query: str, args: object = None) -> int:
        changed = self._sent(query if args is None else self.mogrify(query, args))
        self._refuse_cut()
        return changed

    def execute_all(self, statements: Sequence[str]) -> Iterator[tuple[object, int]]:
        """Run statements in one round trip; yield the rows of each, and the number of rows it has changed.

        The server reports only the warnings of the last one.
        """
        self._sent(";".join(statements))
        for _ in statements[1:]:
            yield self.fetchall(), self.rowcount
            self.nextset()
        self._refuse_cut()
        yield self.fetchall(), self.rowcount

    def _sent(self, sql: str) -> int:
        if len(sql) > _SURELY_FITS:
            self._refuse_too_large(size_of(sql))
        return super().execute(sql)

    def _refuse_too_large(self, size: int) -> None:
        """Raise InvalidInput for a statement that would make the server end the connection."""
        limit = _limits.get(self.connection)
        if limit is None:
            with self.connection.cursor(Cursor) as second:
                second.execute("SELECT @@max_allowed_packet")
                limit = _limits[self.connection] = int(second.fetchall()[0][0])
        if size + 1 >= limit:  # a byte says what kind of packet it is
            raise InvalidInput(
                f"this takes a packet of {size:,} bytes, and the server's max_allowed_packet is {limit:,}; "
                f"{SMALLER_PACKET}"
            )

    def _refuse_cut(self) -> None:
        if self.warning_count:
            with self.connection.cursor(Cursor) as second:
                second.execute("SHOW WARNINGS")
                refuse_cut(second.fetchall())


def refuse_cut(warnings: Iterable[tuple[str, int, str]]) -> None:
    """Raise DataError if one of the server's warnings says that it has cut a value."""
    for _level, number, message in warnings:
        if number in _CUT:
            raise pymysql.DataError(number, message)


class Batch:
    """Statements that are collected until the rows of one are requested, and then sent together."""

    def __init__(self, cursor: StrictCursor) -> None:
        self._cursor = cursor
        self._waiting: list[tuple[LateCursor, bool, str]] = []
        self._size = 0

    def cursor(self) -> LateCursor:
        """Return a cursor whose statements are collected."""
        return LateCursor(self, self._cursor)

    def add(self, cursor: LateCursor, sql: str, *, more: bool = False) -> None:
        """Collect a statement; `more`: its number of changed rows is added to the previous one's."""
        size = size_of(sql) + 1
        if self._size + size > PACKET:
            self.sync()
        self._waiting.append((cursor, more, sql))
        self._size += size
        if sql.startswith("INSERT IGNORE"):  # it may cut values
            self.sync()

    def sync(self) -> None:
        """Send the collected statements; each cursor then has the answer to its last statement."""
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
        self.answer: object = ()
        self.changed = -1

    def execute(self, query: str, args: object = None) -> None:
        """Collect a statement."""
        self._batch.add(self, self._cursor.mogrify(query, args))

    def executemany(self, query: str, args: Iterable[object]) -> None:
        """Collect a statement for each of these parameters; an insert takes as many rows as fit into a packet."""
        insert = RE_INSERT_VALUES.match(query)
        if insert is None:
            statements: Iterable[str] = (self._cursor.mogrify(query, one) for one in args)
        else:
            begin, values, end = insert.group(1) % (), insert.group(2).rstrip(), (insert.group(3) or "") % ()
            rows = (self._cursor.mogrify(values, one) for one in args)
            statements = (f"{begin}{','.join(some)}{end}" for some in packets(rows, size_of))
        for n, sql in enumerate(statements):
            self._batch.add(self, sql, more=n > 0)

    def fetchall(self) -> object:
        """Return the rows of the last statement."""
        self._batch.sync()
        return self.answer

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed."""
        self._batch.sync()
        return self.changed
