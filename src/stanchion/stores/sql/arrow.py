"""Scans as Arrow: PostgreSQL by its ADBC driver, where the rows never become Python objects; SQLite by columns.

SQLite has an ADBC driver too, with a SQLite of its own. Two of them in one process take each other's locks away when
one closes the file (sqlite.org/howtocorrupt.html, 2.2.1), and what is written after that is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, Table, literal_column, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import Boolean, Double, Float, Integer

from stanchion.stores.records.query import Scan
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.schema import jobs
from stanchion.stores.sql.scanning import Scanning, met, shape_of, shown, table_of
from stanchion.stores.sql.stage_statements import held_under_token, within_ids
from stanchion.stores.sql.staging import in_hand_of

if TYPE_CHECKING:
    import pyarrow as pa

_SILENCE = {
    "application_name": "stanchion",
    "connect_timeout": "5",
    "keepalives_idle": "30",
    "tcp_user_timeout": "10000",
}
"""A server that has gone silent is noticed by the connection itself, as a scan may take any time."""

_BATCH = 10_000
"""Rows of a batch, where a database gives rows."""


class Arrow(Scanning):
    """Gives a scan as Arrow where the database has a way to it."""

    @property
    def gives_arrow(self) -> bool:
        """True when `scan_arrow` can be used here."""
        return self.dialect.capabilities.arrow and find_spec(_WAYS[self.dialect.names[0]][0]) is not None

    def scan_arrow(self, scan: Scan, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give these fields of all jobs that meet the conditions, all as of one moment.

        State and priority are what the outside sees; numbers are of any width, times microseconds. A field that such
        jobs do not have is null.
        """
        wanted = _fields(table_of(scan.of), fields).where(met(self.dialect, scan.of, shape_of(scan)))
        yield from self._batches(wanted, self.given_to(scan))

    def in_hand_arrow(
        self, queue: str, token: str, first: str | None, last: str | None, fields: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Give these fields of what `in_hand` gives, in the order of the ids."""
        wanted = _fields(jobs, fields).where(held_under_token(self.dialect), within_ids()).order_by(jobs.c.id)
        now = {**self.database.given(), "now": self.database.read(self.clock)}
        yield from self._batches(wanted, {**now, **in_hand_of(queue, token, first, last)})

    def _batches(self, wanted: Select[Any], params: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        give = _WAYS[self.dialect.names[0]][1]
        yield from give(self.database, wanted, params)


def _fields(table: Table, fields: Sequence[str]) -> Select[Any]:
    """Return a selection of fields, as the outside sees them; ids may be UUIDs or their text."""
    columns: list[ColumnElement[Any]] = []
    for field in fields:
        if field not in table.c:
            columns.append(literal_column("NULL").label(field))
            continue
        columns.append(shown(table).get(field, table.c[field]).label(field))
    return select(*columns)


def _from_postgres(database: Database, wanted: Select[Any], params: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    from adbc_driver_postgresql import dbapi

    from stanchion.stores.sql.arrow_ids import with_text_ids

    # Constants are written into the statement, where a percent sign is one.
    named = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    sql = str(wanted.params(params).compile(dialect=named, compile_kwargs={"literal_binds": True}))
    plain = database.url.set(drivername="postgresql").update_query_dict(_SILENCE)
    url = plain.render_as_string(hide_password=False)
    with closing(dbapi.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        for batch in cursor.fetch_record_batch():
            yield with_text_ids(batch)


def _from_sqlite(database: Database, wanted: Select[Any], params: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = pa.schema([(column.name, _arrow_type(column.type)) for column in wanted.selected_columns])
    with database.streaming(wanted, params) as cursor:
        while rows := cursor.fetchmany(_BATCH):
            columns = zip(*rows, strict=True)
            yield pa.record_batch(
                [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)], schema=schema
            )


def _arrow_type(kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, (Float, Double)):
        return pa.float64()
    return pa.int64() if isinstance(kind, (Integer, Boolean)) else pa.string()


_WAYS = {
    "postgresql": ("adbc_driver_postgresql", _from_postgres),
    "sqlite": ("pyarrow", _from_sqlite),
}
