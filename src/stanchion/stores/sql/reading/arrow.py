"""Queries as Arrow: SQLite by columns, PostgreSQL by its own driver for that.

SQLite's ADBC driver brings a second copy of SQLite. With two copies in one process, closing the file in one releases
the locks of the other (sqlite.org/howtocorrupt.html, 2.2.1), and later writes are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Table, literal_column, select, union_all
from sqlalchemy.types import Boolean, Double, Float, Integer

from stanchion.stores.records.query import Query
from stanchion.stores.rules.query import checked
from stanchion.stores.sql.elements import AnyElement, AnySelect
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params
from stanchion.stores.sql.reading import selection

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH, _AT_ONCE = 10_000, 100
"""Rows per batch, for a database that returns rows, and rows per call."""
_BATCH_CHARACTERS = 16 << 20
"""Characters of texts from which a batch takes no further rows: payloads with many items are large."""


Give = Callable[[Database, AnySelect, Params], "Iterator[pa.RecordBatch]"]


class Arrow:
    """Returns all jobs of a query as Arrow, by the database's own route."""

    def __init__(self, database: Database, give: Give) -> None:
        self._database, self._give = database, give

    def select_arrow(self, query: Query) -> Iterator[pa.RecordBatch]:
        if (wanted := statement(self._database, query)) is not None:
            yield from self._give(self._database, *wanted)


def statement(database: Database, query: Query) -> tuple[AnySelect, Params] | None:
    """Return the statement that reads all jobs of a query, with its parameters; None if no job can meet it."""
    shape = selection.shape_of(checked(query))
    if not shape.tables:
        return None
    params = {**database.given(), **selection.params_of(database.dialect, query)}
    return _statement(database.dialect, shape, query.columns), params


def _statement(dialect: Dialect, shape: selection.Shape, columns: Sequence[str]) -> AnySelect:
    arms = [_fields(dialect, table, columns).where(selection.met(dialect, shape, table)) for table in shape.tables]
    if len(arms) > 1:
        return select(union_all(*arms).subquery("found"))
    (table,) = shape.tables
    return arms[0] if shape.walks(table) else arms[0].order_by(table.c.id)


def _fields(dialect: Dialect, table: Table, fields: Sequence[str]) -> AnySelect:
    """Return a selection of fields, as the API shows them; ids may be UUIDs or texts."""
    shown = {"state": selection.seen_state(dialect, table)}
    null: AnyElement = literal_column("NULL")
    return select(*(shown.get(field, table.c.get(field, null)).label(field) for field in fields))


def from_sqlite(database: Database, wanted: AnySelect, params: Params) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of columns."""
    import pyarrow as pa

    schema = pa.schema([(column.name, _arrow_type(column.type)) for column in wanted.selected_columns])
    texts = [n for n, kind in enumerate(schema.types) if pa.types.is_string(kind)]
    with database.streaming(wanted, params) as cursor:
        while rows := _fetched(cursor.fetchmany, texts):
            columns = zip(*rows, strict=True)
            arrays = [_array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
            yield pa.record_batch(arrays, schema=schema)


def _fetched(fetch: Callable[[int], Sequence[Sequence[object]]], texts: Sequence[int]) -> list[Sequence[object]]:
    """Return the next rows, at most a batch. `texts`: the places of texts."""
    rows: list[Sequence[object]] = []
    size = 0
    while len(rows) < _BATCH and size < _BATCH_CHARACTERS:
        some = fetch(_AT_ONCE)
        if not some:
            break
        rows += some
        size += sum(_characters(row[n]) for row in some for n in texts)
    return rows


def _characters(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Return a column; a value of a wrong type, which another program has stored, is null."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        fitting = str if pa.types.is_string(kind) else (int, float) if pa.types.is_floating(kind) else int
        return pa.array([value if isinstance(value, fitting) else None for value in values], kind)


def _arrow_type(kind: object) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, (Float, Double)):
        return pa.float64()
    return pa.int64() if isinstance(kind, (Integer, Boolean)) else pa.string()
