"""Setup of the schema: create, migrate and check it, or return the statements for an operator to run.

MIGRATIONS has the steps from one version of the schema to the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import (
    DDL,
    Connection,
    String,
    Table,
    create_mock_engine,
    event,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.schema import CreateColumn

from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.fields.jobs import LONG
from stanchion.stores.fields.sql import VERSION
from stanchion.stores.sql.elements import AnyType
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.schema import history, jobs, meta, metadata, stage, stage_prepared

_LZ4 = "SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)"
"""Finds a row if the server can compress by LZ4: from PostgreSQL 14 on, where it was built so."""


def _change(statement: str) -> DDL:
    return DDL(statement)  # type: ignore[no-untyped-call]  # DDL has no types


def _quickly_compressed(table: Table) -> DDL:
    """Return the change that makes PostgreSQL compress contents by LZ4.

    Its default takes several times as long for a chunk, which is compressed already, as all else that stores it.
    """
    columns = ", ".join(f"ALTER {name} SET COMPRESSION lz4" for name in LONG if name in table.columns)
    change = f"EXECUTE 'ALTER TABLE {table.name} {columns}'"  # a text, as an older server can't read it
    return _change(f"DO $$ BEGIN IF EXISTS ({_LZ4}) THEN {change}; END IF; END $$")


# A server crash may empty the stage; publishing then finds jobs missing, and the write is staged again.
_ON_POSTGRESQL = {
    jobs: [_quickly_compressed(jobs)],
    history: [_quickly_compressed(history)],
    stage: [_change(f"ALTER TABLE {stage.name} SET UNLOGGED"), _quickly_compressed(stage)],
    stage_prepared: [
        _change(f"ALTER TABLE {stage_prepared.name} SET UNLOGGED"),
        # Compression takes longer than all the rest.
        _change(f"ALTER TABLE {stage_prepared.name} ALTER COLUMN rows SET STORAGE EXTERNAL"),
    ],
}
"""What PostgreSQL changes of tables, once they are made; each may be repeated."""
for _table, _changes in _ON_POSTGRESQL.items():
    for _one in _changes:
        event.listen(_table, "after_create", _one.execute_if(dialect="postgresql"))

_CHANGES = ("CREATE ", "ALTER ", "DROP ", "DO ", "GRANT ", "REVOKE ")


class Setup:
    """Creates or upgrades the tables. `before` is called first."""

    def __init__(self, db: Database, before: Callable[[], None] = lambda: None) -> None:
        self._db, self._before = db, before
        self._lock = threading.Lock()

    def setup(self, *, dry_run: bool = False) -> list[str]:
        """Upgrade to this release's schema; return the statements that were run or, with `dry_run`, those to run."""
        steps = self._steps() if dry_run else self._migrated()
        return [f"{step.strip()};" for step in steps]

    def _migrated(self) -> list[str]:
        self._before()
        with self._lock, self._db.transaction() as connection, self._db.dialect.lock_schema(connection):
            found = self._version(connection)
            if found is not None and found > VERSION:
                raise SchemaMismatch(_newer(found))
            self._db.dialect.enter_schema(connection, new=found is None)
            with _schema_changes(connection) as steps:
                self._migrate(connection, found or 0)
            if found is None:
                connection.execute(insert(meta).values(version=VERSION))
            elif found < VERSION:
                connection.execute(update(meta).values(version=VERSION))
            made = literal_column(self._db.dialect.new_identity, String)
            connection.execute(update(meta).where(meta.c.identity.is_(None)).values(identity=made))
        return self._whole_steps(steps, found)

    def _migrate(self, connection: Connection, found: int) -> None:
        for migrate in dict.fromkeys(MIGRATIONS[found:]):
            migrate(connection)
        # A dump may have been restored without it.
        if found < VERSION or not self._db.dialect.has_push_routine(connection):
            for statement in self._db.dialect.push_routine(connection):
                connection.exec_driver_sql(statement)

    def _steps(self) -> list[str]:
        found = self._found()
        if found is None:
            return self._whole_steps(self._whole(), found)
        if found > VERSION:
            raise SchemaMismatch(_newer(found))
        with self._lent() as connection, _schema_changes(connection, instead="SELECT 1") as steps:
            self._db.dialect.enter_schema(connection, new=False)
            self._migrate(connection, found)
        # A dry step finds nothing made by the one before it, and so repeats its statements.
        return self._whole_steps(dict.fromkeys(steps), found)

    def _lent(self) -> AbstractContextManager[Connection]:
        """Lend a connection to read with; in a transaction where that is where the schema can be entered."""
        return self._db.connection() if self._db.dialect.qualified.schema is None else self._db.transaction()

    def _whole_steps(self, changes: Iterable[str], found: int | None) -> list[str]:
        """Return these changes, with the statements before and after them, if there are any."""
        steps = [*changes, *self._version_writes(found)]
        return [*self._db.dialect.schema_steps(new=found is None), *steps] if steps else []

    def _version_writes(self, found: int | None) -> list[str]:
        """Return the statements that write the version, if the one found is missing or different."""
        identity = self._db.dialect.new_identity
        if found is None:
            return [f"INSERT INTO {meta.name} (version, identity) VALUES ({VERSION}, {identity})"]
        return [] if found == VERSION else [f"UPDATE {meta.name} SET version = {VERSION}, identity = {identity}"]

    def _found(self) -> int | None:
        """Return the version of the schema; None if there is no schema, or no database."""
        if not self._db.dialect.is_there():
            return None
        try:
            with self._db.connection() as connection:
                return self._version(connection)
        except StoreUnavailable:
            return None

    def _whole(self) -> list[str]:
        """Return the statements that create the whole schema."""
        steps: list[str] = []
        dialect = self._db.engine.dialect
        engine = create_mock_engine(
            self._db.url,
            lambda statement, *_args, **_options: steps.append(str(statement.compile(dialect=dialect))),
        )
        metadata.create_all(engine, checkfirst=False)
        return [*steps, *self._db.dialect.push_routine(None)]

    def _version(self, connection: Connection) -> int | None:
        """Return the version of the schema; None if there is no schema."""
        schema = self._db.dialect.qualified.schema
        if not inspect(connection).has_table(meta.name, schema=schema):
            return None
        options = {"schema_translate_map": {None: schema}}
        found: int | None = connection.execute(select(meta.c.version), execution_options=options).scalar()
        return found

    def check(self) -> None:
        """Raise SchemaMismatch unless the schema is this release's; a store that makes its own is upgraded instead."""
        found = self._db.look(self._version)
        if found == VERSION:
            return
        if found is not None and found > VERSION:
            raise SchemaMismatch(_newer(found))
        if self._db.dialect.makes_schema:
            self._migrated()
        elif found is None:
            schema = self._db.dialect.qualified.schema
            place = "the database" if schema is None else f"the schema {schema}"
            raise SchemaMismatch(f"{place} has no Stanchion tables; make them with: stanchion setup --url ...")
        else:
            raise SchemaMismatch(
                f"the tables are of version {found}, older than this release's {VERSION}; "
                f"bring them up to date with: stanchion setup --url ..."
            )


@contextmanager
def _schema_changes(connection: Connection, instead: str | None = None) -> Iterator[list[str]]:
    """Record the statements of the block that change the schema; `instead`: the statement to run in their place."""
    steps: list[str] = []

    def record(
        _on: object, _cursor: object, statement: str, given: object, _context: object, _many: bool
    ) -> tuple[str, object]:
        if not statement.lstrip().upper().startswith(_CHANGES):
            return statement, given
        steps.append(statement)
        return instead or statement, given

    event.listen(connection, "before_cursor_execute", record, retval=True)
    try:
        yield steps
    finally:
        event.remove(connection, "before_cursor_execute", record)


def _newer(found: int) -> str:
    return (
        f"the tables are of version {found}, newer than this release's {VERSION}; "
        f"upgrade this process: pip install -U stanchion"
    )


_WIDEN = {
    "postgresql": "ALTER COLUMN {name} TYPE {type}",
    "mysql": "MODIFY COLUMN {definition}",
    "mariadb": "MODIFY COLUMN {definition}",
}
"""How a text column gets a longer type; SQLite has no lengths."""


def _is_shorter(found: AnyType, wanted: AnyType) -> bool:
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
        if connection.dialect.name == "postgresql":
            for change in _ON_POSTGRESQL.get(table, ()):
                connection.execute(change)
        # Where each schema change commits itself, a setup that died may have left a table without its indexes.
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _add_columns(connection: Connection, table: Table) -> None:
    there = {column["name"]: column["type"] for column in inspect(connection).get_columns(table.name)}
    widen = _WIDEN.get(connection.dialect.name)
    for column in table.columns:
        definition = CreateColumn(column).compile(dialect=connection.dialect)
        if definition.string is None:
            continue  # this database has no such column
        if column.name not in there:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
        elif widen is not None and _is_shorter(there[column.name], column.type):
            wanted = column.type.compile(connection.dialect)
            change = widen.format(name=column.name, definition=definition, type=wanted)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} {change}")


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_complete,) * 8
"""Step n upgrades a schema from version n to n + 1; steps are only ever appended. Equal ones run once in a setup."""
