"""Rows for a table, made of the values that a station returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput
from stanchion.pipelines.tables.table import Table
from stanchion.schemas.kinds import Decimals, Field, Schema
from stanchion.schemas.misfits import Checker, Misfit
from stanchion.stores.ports import ResultTables
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import ResultTable, TableColumn, TableRows

if TYPE_CHECKING:
    from stanchion.core.chunks.chunk import Chunk

ITEM: Final = (TableColumn("job_id", "id", False, optional=True), TableColumn("item", "bigint", optional=True))
"""The columns that name the item of a row: the job that carried it, and its place there."""

Row = tuple[object, ...]


class Rows(NamedTuple):
    """Rows made of values, and why others can't be rows, by their places."""

    rows: list[tuple[int, Row]]
    misfits: list[tuple[int, Misfit]]


class Fields:
    """The fields of a table's rows, and their check."""

    def __init__(self, table: Table, schema: Schema) -> None:
        self.table, self.name, self.schema = table, table.name, schema
        self._check = Checker(schema.struct).value

    def told(self, misfit: Misfit) -> str:
        """Return why a value can't be a row, for people."""
        return f"the item does not fit table {self.table.address} ({self.schema}): {misfit}"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_check": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._check = Checker(self.schema.struct).value


class TableTarget(Fields):
    """A table of the store's database that a station writes to: makes rows, and the table."""

    def __init__(self, table: Table, schema: Schema) -> None:
        super().__init__(table, schema)
        self._fields = schema.fields
        own = {field.name.casefold() for field in schema.fields}
        self._item = [place for place, one in enumerate(ITEM) if one.name not in own]
        columns = (TableColumn(one.name, str(one.kind), one.nullable) for one in schema.fields)
        self.result = ResultTable(table.address, (*(ITEM[place] for place in self._item), *columns))
        self._store: Store | None = None

    def prepare(self, store: Store) -> None:
        """Make the table if it is missing. Raises InvalidInput if it does not fit, or if the store has no tables."""
        if store is self._store:
            return
        tables = store.extension(ResultTables)
        if tables is None:
            raise InvalidInput(no_tables(store, self.table.address))
        tables.make_table(self.result)
        self._store = store

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_store": None}

    def row_of(self, codec: Codec, value: object, job_id: str, item: int | None) -> TableRows:
        """Return a value as a row. Raises InvalidInput if it is none."""
        found = json.loads(codec.plain(value, "payload"))
        if (misfit := self._check(found)) is not None:
            raise InvalidInput(self.told(misfit))
        return self.of([self._row(found, job_id, item)])

    def of(self, rows: Sequence[Row]) -> TableRows:
        """Return rows for the table."""
        return TableRows(self.result, tuple(rows))

    def rows_of(self, items: Chunk, job_id: str, positions: Sequence[int | None]) -> Rows:
        """Return values as rows. `positions`: of the items that they were made of, in the job."""
        columns = self._columns(items)
        if columns is not None:
            named = [[job_id] * len(items), positions]
            listed = zip(*(named[place] for place in self._item), *columns, strict=True)
            return Rows(list(enumerate(listed)), [])
        rows, misfits = [], []
        for place, (value, position) in enumerate(zip(items.values, positions, strict=True)):
            if (misfit := self._check(value)) is None:
                rows.append((place, self._row(value, job_id, position)))
            else:
                misfits.append((place, misfit))
        return Rows(rows, misfits)

    def _row(self, value: object, job_id: str, item: int | None) -> Row:
        assert isinstance(value, dict)  # noqa: S101 - it fits
        named: list[object] = [job_id, item]
        values = (_stored(one, value.get(one.name)) for one in self._fields)
        return (*(named[place] for place in self._item), *values)

    def _columns(self, items: Chunk) -> list[Sequence[object]] | None:
        """Return the values of all fields, if the items have typed columns and all of them fit; else None."""
        from stanchion.schemas.typed_columns import structs_of_columns

        table = items.columns()
        if table is None or structs_of_columns(self.schema.struct, table) is None:
            return None
        there, nulls = set(table.schema.names), [None] * len(items)
        return [table.column(one.name).to_pylist() if one.name in there else nulls for one in self._fields]


def _stored(field: Field, value: object) -> object:
    """Return a value of a field as rows have it: decimals as texts, so that each digit is kept."""
    if value is None or not isinstance(field.kind, Decimals):
        return value
    return value if isinstance(value, str) else repr(value)


def no_tables(store: Store, address: str) -> str:
    """Return why a store can't write to a table, and what to do instead."""
    return (
        f"table {address} can't be written with the items: the {store.capabilities.name} store has no tables in its "
        f"transactions; use a table in a folder, such as delta:///lake/{address.rpartition('.')[2]}, or SQLite, "
        f"PostgreSQL or MariaDB"
    )
