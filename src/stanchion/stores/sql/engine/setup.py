"""The life of the schema: made, migrated, checked, and told as statements that somebody else may run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, String, create_mock_engine, event, insert, inspect, literal_column, select, update

from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.schema import MIGRATIONS, VERSION, meta, metadata

_CHANGES = ("CREATE", "ALTER")


class Setup:
    """Makes the tables, or brings them up to date. `before`: what comes before that."""

    def __init__(self, db: Database, before: Callable[[], None] = lambda: None) -> None:
        self._db, self._before = db, before
        self._lock = threading.Lock()

    def setup(self, *, dry_run: bool) -> list[str]:
        """Take the steps to this release's schema; return them, or with `dry_run` those to take, as statements."""
        steps = self._steps() if dry_run else self._migrated()
        return [f"{step.strip()};" for step in steps]

    def _migrated(self) -> list[str]:
        self._before()
        with (
            self._lock,
            self._db.transaction() as connection,
            self._db.dialect.lock_schema(connection),
            _noted(connection) as steps,
        ):
            found = _version(connection)
            if found is not None and found > VERSION:
                raise SchemaMismatch(_newer(found))
            for migrate in MIGRATIONS[found or 0 :]:
                migrate(connection)
            if found is None:
                connection.execute(insert(meta).values(version=VERSION))
            elif found < VERSION:
                connection.execute(update(meta).values(version=VERSION))
            made = literal_column(self._db.dialect.new_identity, String)
            connection.execute(update(meta).where(meta.c.identity.is_(None)).values(identity=made))
        return [*steps, *self._marks(found)]

    def _steps(self) -> list[str]:
        found = self._found()
        if found is None:
            return [*self._whole(), *self._marks(found)]
        if found > VERSION:
            raise SchemaMismatch(_newer(found))
        with self._db.connection() as connection, _noted(connection, instead="SELECT 1") as steps:
            for migrate in MIGRATIONS[found:]:
                migrate(connection)
        # A step looks for what the one before it has not made after all, and makes it again.
        return [*dict.fromkeys(steps), *self._marks(found)]

    def _marks(self, found: int | None) -> list[str]:
        """Return how the version is written where another one, or none, was found."""
        identity = self._db.dialect.new_identity
        if found is None:
            return [f"INSERT INTO {meta.name} (version, identity) VALUES ({VERSION}, {identity})"]
        return [] if found == VERSION else [f"UPDATE {meta.name} SET version = {VERSION}, identity = {identity}"]

    def _found(self) -> int | None:
        """Return the version of the schema; None when there is none, or no database to ask."""
        if not self._db.dialect.is_there():
            return None
        try:
            with self._db.connection() as connection:
                return _version(connection)
        except StoreUnavailable:
            return None

    def _whole(self) -> list[str]:
        """Return the statements that make the whole schema."""
        steps: list[str] = []
        dialect = self._db.engine.dialect
        engine = create_mock_engine(
            self._db.url,
            lambda statement, *_args, **_options: steps.append(str(statement.compile(dialect=dialect))),
        )
        metadata.create_all(engine, checkfirst=False)
        return steps

    def check(self) -> None:
        """Raise SchemaMismatch unless the schema is of this release; where a store makes its own, bring it there."""
        with self._db.connection() as connection:
            found = _version(connection)
        if found == VERSION:
            return
        if found is not None and found > VERSION:
            raise SchemaMismatch(_newer(found))
        if self._db.dialect.makes_schema:
            self._migrated()
        elif found is None:
            raise SchemaMismatch("the database has no Stanchion tables; make them with: stanchion setup --url ...")
        else:
            raise SchemaMismatch(
                f"the tables are of version {found}, older than this release's {VERSION}; "
                f"bring them up to date with: stanchion setup --url ..."
            )


@contextmanager
def _noted(connection: Connection, instead: str | None = None) -> Iterator[list[str]]:
    """Note what changes the schema in the block; `instead`: what is run in its place."""
    steps: list[str] = []

    def note(_on: Any, _cursor: Any, statement: str, given: Any, _context: Any, _many: bool) -> tuple[str, Any]:
        if not statement.lstrip().upper().startswith(_CHANGES):
            return statement, given
        steps.append(statement)
        return instead or statement, given

    event.listen(connection, "before_cursor_execute", note, retval=True)
    try:
        yield steps
    finally:
        event.remove(connection, "before_cursor_execute", note)


def _version(connection: Connection) -> int | None:
    """Return the version of the schema; None when there is none."""
    if not inspect(connection).has_table(meta.name):
        return None
    found: int | None = connection.execute(select(meta.c.version)).scalar()
    return found


def _newer(found: int) -> str:
    return (
        f"the tables are of version {found}, newer than this release's {VERSION}; "
        f"upgrade this process: pip install -U stanchion"
    )
