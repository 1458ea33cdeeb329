"""The versions of the schema, and the steps from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Table, inspect
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import TypeEngine

from stanchion.stores.sql.engine.schema import metadata

_WIDEN = {
    "postgresql": "ALTER COLUMN {name} TYPE {type}",
    "mysql": "MODIFY COLUMN {definition}",
    "mariadb": "MODIFY COLUMN {definition}",
}
"""How a text column gets a longer type; SQLite has no lengths."""


def _is_shorter(found: TypeEngine[Any], wanted: TypeEngine[Any]) -> bool:
    length, needed = getattr(found, "length", None), getattr(wanted, "length", None)
    return length is not None and needed is not None and length < needed


def _complete(connection: Connection) -> None:
    """Add the tables, columns and indexes of `metadata` that the database lacks, and widen texts that are too short.

    New columns are nullable or have a default, so that processes of an older release still write rows.
    """
    found = inspect(connection)
    there = [table for table in metadata.sorted_tables if found.has_table(table.name)]
    missing = [table for table in metadata.sorted_tables if table not in there]
    metadata.create_all(connection, tables=missing, checkfirst=False)
    for table in there:
        _add_columns(connection, table)
        # Where each schema change commits itself, a setup that died may have left a table without its indexes.
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _add_columns(connection: Connection, table: Table) -> None:
    there = {column["name"]: column["type"] for column in inspect(connection).get_columns(table.name)}
    widen = _WIDEN.get(connection.dialect.name)
    for column in table.columns:
        definition = CreateColumn(column).compile(dialect=connection.dialect)
        if column.name not in there:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
        elif widen is not None and _is_shorter(there[column.name], column.type):
            wanted = column.type.compile(connection.dialect)
            change = widen.format(name=column.name, definition=definition, type=wanted)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} {change}")


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_complete,) * 6
"""Step n upgrades a schema from version n to n + 1; steps are only ever appended. Equal ones run once in a setup."""
