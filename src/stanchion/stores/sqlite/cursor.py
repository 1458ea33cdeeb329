"""Cursors that return rows of the right types: SQLite stores values of any type in any column.

Another program may have stored bytes in a column of texts, or a text in a column of numbers. Neither may fail the code
that reads the row. A job with such values says so in its payload; see `rules.misfits`.
"""

from __future__ import annotations

import sqlite3
from itertools import chain

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.misfits import RowTypes
from stanchion.stores.rules.undeliverable import NotUtf8
from stanchion.stores.sql.engine.runner import Row
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS, stage_prepared
from stanchion.stores.sql.rows.contents import row_of

ROW_TYPES = RowTypes({bool: (int,), float: (int,), str: (NotUtf8,)}, chunks_as_text=True)

_WIDE = len(CLAIMED_COLUMNS)
"""Number of columns from which a row is a whole job: no other query returns as many."""
_BYTES = stage_prepared.c.rows.name


class FittingCursor(sqlite3.Cursor):
    """A cursor of the store."""

    def fetchall(self) -> list[Row]:
        """Return all rows that are left."""
        return self._fitting(super().fetchall())

    def fetchmany(self, size: int | None = 1) -> list[Row]:
        """Return up to so many rows."""
        return self._fitting(super().fetchmany(size))

    def _fitting(self, rows: list[Row]) -> list[Row]:
        if not rows:
            return rows
        if len(rows[0]) >= _WIDE:
            return rows if ROW_TYPES.fit(rows) else list(map(_job, rows))
        if bytes not in map(type, chain.from_iterable(rows)) or _BYTES in (one[0] for one in self.description):
            return rows
        return [tuple(map(as_text, row)) for row in rows]


def as_text(value: object) -> object:
    """Return a value unchanged, but bytes as text, with replacement characters for invalid UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _job(columns: Row) -> JobRow:
    return ROW_TYPES.fitted(row_of(columns), whole=True, columns=len(columns))
