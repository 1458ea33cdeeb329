"""Queries as Arrow, by PostgreSQL's ADBC driver, which makes no Python objects of the rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import URL
from sqlalchemy.dialects import postgresql

from stanchion.core.concurrency.forks import close_before_fork
from stanchion.stores.sql.elements import AnySelect
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection, Cursor

_SILENCE = {
    "application_name": "stanchion",
    "connect_timeout": "5",
    "keepalives_idle": "30",
    "tcp_user_timeout": "10000",
    "client_encoding": "utf8",
}
"""TCP keepalive detects a silent server, as a query has no time limit."""


class ArrowConnections:
    """Reads over connections of the ADBC driver, separate from the pool.

    One stays open for the next read: the driver connects twice to open one, and reads all types of the database.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: Connection | None = None
        close_before_fork(self)

    def read(self, database: Database, wanted: AnySelect, params: Params) -> Iterator[pa.RecordBatch]:
        """Yield the rows that a statement returns."""
        from stanchion.stores.sql.reading.arrow_ids import with_text_ids

        cursor = self._executed(database.url, postgres_text(database, wanted, params))
        try:
            for batch in cursor.fetch_record_batch():
                yield with_text_ids(batch)
        except BaseException:
            cursor.connection.close()
            raise
        self._keep(cursor)

    def close(self) -> None:
        """Close the idle connection; a later read opens another."""
        idle = self._taken()
        if idle is not None:
            idle.close()

    def _executed(self, url: URL, sql: str) -> Cursor:
        """Return a cursor with the rows of a statement: of the idle connection, if it still works, or of a new one."""
        from adbc_driver_postgresql import dbapi

        if (idle := self._taken()) is not None:
            try:
                return _execute(idle, sql)
            except dbapi.Error:  # the server may have closed it; a new one reports other causes
                pass
        plain = url.set(drivername="postgresql").update_query_dict(_SILENCE)
        # Outside a transaction: one that stayed open would keep the server from removing dead rows.
        return _execute(dbapi.connect(plain.render_as_string(hide_password=False), autocommit=True), sql)

    def _keep(self, cursor: Cursor) -> None:
        connection = cursor.connection
        cursor.close()
        with self._lock:
            if self._idle is None:
                self._idle = connection
                return
        connection.close()

    def _taken(self) -> Connection | None:
        with self._lock:
            idle, self._idle = self._idle, None
        return idle


def _execute(connection: Connection, sql: str) -> Cursor:
    try:
        cursor = connection.cursor()
        cursor.execute(sql)
    except BaseException:
        connection.close()
        raise
    return cursor


def postgres_text(database: Database, wanted: AnySelect, params: Params) -> str:
    """Return a statement as text, with its parameters as constants."""
    # A percent sign in a constant is escaped, unless parameters are named.
    named = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]  # SQLAlchemy's dialects have no types
    sql = str(wanted.params(params).compile(dialect=named, compile_kwargs={"literal_binds": True}))
    return database.dialect.qualified(sql)
