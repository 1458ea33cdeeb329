"""Scans as Arrow, by the databases' ADBC drivers: the rows never become Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Executable, Select, String, cast, literal_column, select, union_all
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.engine import Dialect as Compiling
from sqlalchemy.types import BigInteger, Boolean, Double, Float, Integer

from stanchion.stores.records import Scan
from stanchion.stores.sql.scanning import Scanning, met, shape_of, shown, table_of

if TYPE_CHECKING:
    import pyarrow as pa

_SILENCE = {
    "application_name": "stanchion",
    "connect_timeout": "5",
    "keepalives_idle": "30",
    "tcp_user_timeout": "10000",
}
"""A server that has gone silent is noticed by the connection itself, as a scan may take any time."""


class Arrow(Scanning):
    """Gives a scan as Arrow where the database has a driver for it."""

    @property
    def gives_arrow(self) -> bool:
        """True when `scan_arrow` can be used here."""
        return self.dialect.capabilities.arrow and find_spec(_DRIVERS[self.dialect.names[0]][0]) is not None

    def scan_arrow(self, scan: Scan, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give these fields of all jobs that meet the conditions, all as of one moment.

        State and priority are what the outside sees; numbers are of any width, times microseconds. A field that such
        jobs do not have is null.
        """
        name = self.dialect.names[0]
        connect, wanted = _DRIVERS[name][1], self._wanted(scan, fields)
        statement: Executable = union_all(_typed(wanted), wanted) if name == "sqlite" else wanted
        sql = str(
            statement.params(self.given_to(scan)).compile(  # type: ignore[attr-defined]
                dialect=_COMPILING[name], compile_kwargs={"literal_binds": True}
            )
        )
        with closing(connect(self.database.url)) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            head = name == "sqlite"
            for batch in cursor.fetch_record_batch():
                yield batch.slice(1) if head else batch
                head = False

    def _wanted(self, scan: Scan, fields: Sequence[str]) -> Select[Any]:
        table = table_of(scan.of)
        columns: list[ColumnElement[Any]] = []
        for field in fields:
            if field not in table.c:
                columns.append(literal_column("NULL").label(field))
                continue
            column = shown(table).get(field, table.c[field])
            columns.append((cast(column, String(36)) if field in ("id", "origin") else column).label(field))
        return select(*columns).where(met(self.dialect, scan.of, shape_of(scan)))


def _typed(wanted: Select[Any]) -> Select[Any]:
    """Return a row of the types of a selection.

    SQLite's driver takes the types of columns from their first values, which may all be null.
    """
    columns: list[ColumnElement[Any]] = [
        literal_column(_sample(column.type)).label(column.name) for column in wanted.selected_columns
    ]
    return select(*columns)


def _sample(kind: Any) -> str:
    if isinstance(kind, (Float, Double)):
        return "0.0"
    return "0" if isinstance(kind, (Integer, BigInteger, Boolean)) else "''"


def _postgres(url: URL) -> Any:
    from adbc_driver_postgresql import dbapi

    plain = url.set(drivername="postgresql").update_query_dict(_SILENCE)
    return dbapi.connect(plain.render_as_string(hide_password=False))


def _sqlite(url: URL) -> Any:
    from adbc_driver_sqlite import dbapi

    return dbapi.connect(url.database)


_DRIVERS = {
    "postgresql": ("adbc_driver_postgresql", _postgres),
    "sqlite": ("adbc_driver_sqlite", _sqlite),
}
_COMPILING: dict[str, Compiling] = {
    # Constants are written into the statement, where a percent sign is one.
    "postgresql": postgresql.dialect(paramstyle="named"),  # type: ignore[no-untyped-call]
    "sqlite": sqlite.dialect(paramstyle="named"),
}
