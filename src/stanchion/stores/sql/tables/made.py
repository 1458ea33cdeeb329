"""Tables for results: created where they are missing, checked where others have made them, and read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Column, Connection, MetaData, Table, inspect, null, select
from sqlalchemy.exc import DBAPIError, NoSuchTableError
from sqlalchemy.schema import CreateColumn, CreateTable

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.records.outcomes import ResultTable, TableColumn
from stanchion.stores.sql.elements import AnyElement, AnyType
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import cause_of
from stanchion.stores.sql.engine.failure_messages import reason_of
from stanchion.stores.sql.engine.schema import BY_BYTES
from stanchion.stores.sql.tables.types import column_type, takes

_AT_ONCE = 5000


class MadeTable(NamedTuple):
    """A table that is there. `columns`: those that are written, with the places of their values in rows."""

    table: Table
    columns: tuple[tuple[int, TableColumn], ...]


class MadeTables:
    """The tables for results of one database, each looked at once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: dict[ResultTable, MadeTable] = {}

    def make_table(self, table: ResultTable) -> None:
        """Create a table unless it is there; see `ports.ResultTables`."""
        self._known[table] = self._checked(table) or self._created(table)

    def of(self, table: ResultTable) -> MadeTable:
        """Return a table. Raises InvalidInput if it can't take the rows, and StoreUnavailable if it is missing."""
        found = self._known.get(table) or self._checked(table)
        if found is None:
            raise self.missing(table)
        self._known[table] = found
        return found

    def missing(self, table: ResultTable, reason: str = "") -> StoreUnavailable:
        """Return the error for a table that is gone or has lost a column; what was known of it is forgotten."""
        self._known.pop(table, None)
        told = f": {reason}" if reason else ""
        return StoreUnavailable(
            f"table {table.name} is missing, or lacks a column{told}; restore it, or start the program again, which "
            f"creates a missing table"
        )

    def table_rows(self, table: ResultTable) -> Iterator[list[tuple[object, ...]]]:
        """Yield the rows of a table in batches; see `ports.ResultTables`."""
        made = self.of(table)
        there: dict[str, AnyElement] = {one.name: made.table.c[one.name] for _, one in made.columns}
        wanted = select(*(there.get(one.name, null().label(one.name)) for one in table.columns))
        with self._db.streaming(wanted, {}) as cursor:
            while rows := cursor.fetchmany(_AT_ONCE):
                yield [tuple(row) for row in rows]

    # -- the table in the database

    def _created(self, table: ResultTable) -> MadeTable:
        made = _named(table.name, *(self._column(one) for one in table.columns))
        with self._db.transaction() as connection, self._db.dialect.lock_schema(connection):
            try:
                connection.execute(CreateTable(made, if_not_exists=True))
            except DBAPIError as error:
                cause = cause_of(error)
                if not self._db.dialect.is_forbidden(cause):
                    raise
                statement = str(CreateTable(made).compile(dialect=self._db.engine.dialect)).strip()
                raise InvalidInput(
                    f"table {table.name} is missing, and this user may not create it "
                    f"({reason_of(cause, self._db.url)}); create it as another user: {statement}"
                ) from error
        if (found := self._checked(table)) is None:
            raise self.missing(table)
        return found

    def _column(self, column: TableColumn) -> Column[object]:
        kind = column_type(column.kind, self._database)
        return Column(column.name, kind, nullable=column.nullable, primary_key=False, autoincrement=False)

    @property
    def _database(self) -> str:
        """The name of the kind of database; MariaDB's is `mysql`."""
        name: str = self._db.engine.dialect.name
        return "mysql" if name == "mariadb" else name

    def _checked(self, table: ResultTable) -> MadeTable | None:
        """Return the table as it is there, None: it is not. Raises InvalidInput if it can't take the rows."""
        return self._db.look(lambda connection: self._looked_at(connection, table))

    def _looked_at(self, connection: Connection, table: ResultTable) -> MadeTable | None:
        there = _named(table.name)
        try:
            found = {one["name"]: one for one in inspect(connection).get_columns(there.name, there.schema)}
        except NoSuchTableError:
            return None
        columns = []
        for place, wanted in enumerate(table.columns):
            if (one := found.pop(wanted.name, None)) is None:
                if wanted.optional:
                    continue
                raise _refused(table, f"it has no column {wanted.name!r}; {self._change(table, wanted)}")
            kind: AnyType = one["type"]
            if not takes(kind, wanted.kind, self._database):
                raise _refused(
                    table,
                    f"its column {wanted.name!r} is {kind.compile(connection.dialect)}, and the field is "
                    f"{wanted.kind}; change one of them",
                )
            columns.append((place, wanted))
            there.append_column(Column(wanted.name, kind))
        for name, one in found.items():
            if not (one["nullable"] or one["default"] or one.get("autoincrement") is True or "computed" in one):
                if "identity" in one or (self._database == "sqlite" and one.get("primary_key")):
                    continue
                raise _refused(
                    table, f"its column {name!r} needs a value, and the station has no such field; give it a default"
                )
        return MadeTable(there, tuple(columns))

    def _change(self, table: ResultTable, column: TableColumn) -> str:
        """Return the advice to add a column."""
        made = self._column(column)
        made.nullable = True
        _named("t", made)
        definition = CreateColumn(made).compile(dialect=self._db.engine.dialect)
        return f"add it (ALTER TABLE {table.name} ADD COLUMN {definition}), or leave the field out"


def _named(name: str, *columns: Column[object]) -> Table:
    schema, _, own = name.rpartition(".")
    return Table(
        own,
        MetaData(),
        *columns,
        schema=schema or None,
        mysql_engine="InnoDB",
        mysql_default_charset=f"utf8mb4 {BY_BYTES}",
    )


def _refused(table: ResultTable, why: str) -> InvalidInput:
    return InvalidInput(f"table {table.name} does not fit the results: {why}")
