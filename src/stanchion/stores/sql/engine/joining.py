"""Joining the caller's transaction, which must be in the store's own database.

The row of stanchion_meta holds an identity, made once by the server. A transaction that reads the same identity in the
same place reaches the store's tables. Each call checks it, as a connection may switch to another database or schema
between two calls (`USE`, `search_path`, `ATTACH`). On frequent calls the check is free: it is sent with the clock, or
is part of the statement that stores jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Executable, String, literal_column, select
from sqlalchemy.engine import Connection

from stanchion.errors import CannotJoin
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect, cause_of
from stanchion.stores.sql.engine.runner import AlchemyRunner, CursorRunner, Runner
from stanchion.stores.sql.engine.schema import meta


@contextmanager
def joined(database: Database, transaction: Any, *, guarded: bool = False) -> Iterator[Runner]:
    """Lend a runner of statements inside the caller's transaction.

    Accepts a SQLAlchemy Session or Connection, or the driver's own connection. Raises CannotJoin for anything else, and
    for a transaction on another database. `guarded`: the first statement checks the identity itself.
    """
    connection = alchemy_connection(transaction)
    run = _runner(database, transaction, connection)
    if connection is None or connection.engine is not database.engine:
        driver = transaction if connection is None else connection.connection.driver_connection
        if not (guarded and database.identity and driver in database.joined):
            _read_first(database, run)
            if guarded:
                database.joined.add(driver)
        else:
            run.guarded = True
    try:
        yield run
    except Exception as error:
        if run.guarded and database.dialect.is_strange(cause_of(error)):
            raise _elsewhere(database) from error
        if database.dialect.is_old_snapshot(cause_of(error)):
            raise CannotJoin(
                "the transaction reads an old snapshot, as others have written since its first read, so it can write "
                "no more: roll it back, and begin it with a write, such as BEGIN IMMEDIATE"
            ) from error
        raise


def must_be_here(database: Database, run: Runner) -> None:
    """Raise CannotJoin if a guarded runner is in another database than the store."""
    found = _identity(database, run)
    if database.identity is None or found != database.identity:
        _own(database)
    if found is None or found != database.identity:
        raise _elsewhere(database)
    run.guarded = False


def _read_first(database: Database, run: Runner) -> None:
    dialect = database.dialect
    if dialect.has_tables(run) and dialect.is_same_place(run):
        must_be_here(database, run)
    else:
        raise _elsewhere(database)


def _own(database: Database) -> None:
    """Read the store's own identity, which changes if its tables are recreated."""
    database.identity = database.read(lambda run: _identity(database, run))
    if database.identity is None:
        raise CannotJoin(
            "outside of tx there are no tables of the store, or none that are up to date: call app.setup(), or commit "
            "what makes them, before a transaction enqueues"
        )


def _identity(database: Database, run: Runner) -> str | None:
    """Read the identity and, with it, the clock; None if there is no identity."""
    try:
        found = run.rows(database.dialect.once(_clock_and_identity))
    except Exception as error:
        if database.dialect.is_strange(cause_of(error)):
            return None
        raise
    run.clock = int(found[0][0]) if found else None
    return found[0][1] if found else None


def _clock_and_identity(dialect: Dialect) -> Executable:
    return select(dialect.now, literal_column(dialect.identity, String)).select_from(meta)


def _elsewhere(database: Database) -> CannotJoin:
    shown = database.url.render_as_string(hide_password=True)
    return CannotJoin(
        f"tx is in another database, or another schema, than the queue, which is in {shown}; both must be in one to "
        f"commit as one"
    )


def _runner(database: Database, transaction: Any, connection: Connection | None) -> Runner:
    if connection is not None:
        theirs = connection.dialect.name
        if theirs not in database.dialect.names:
            ours = database.dialect.capabilities.name
            raise CannotJoin(f"tx is on {theirs}, the queue on {ours}; both must be in one database to commit as one")
        if not connection.in_transaction():
            connection.begin()  # as its first statement would do
        driver: Any = connection.connection.driver_connection
        if not database.dialect.owns(driver):
            return AlchemyRunner(connection, database.given())
    elif database.dialect.owns(transaction):
        driver = transaction
    else:
        raise _stranger(database, transaction)
    database.dialect.must_be_open(driver)
    _ = database.engine  # sets the compiler
    return CursorRunner(database.dialect.cursor(driver), database.compiler, database.given(), joined=True)


def _stranger(database: Database, transaction: Any) -> CannotJoin:
    return CannotJoin(
        f"tx must be a SQLAlchemy Session or Connection, or an open {database.engine.dialect.driver} connection, "
        f"not {type(transaction).__name__}; in asyncio use `await session.run_sync(lambda s: ... tx=s)`"
    )


def alchemy_connection(transaction: Any) -> Connection | None:
    """Return the connection of a SQLAlchemy Session or Connection."""
    if isinstance(transaction, Connection):
        return transaction
    # Session and scoped_session, without importing the ORM for callers that do not use it.
    if hasattr(transaction, "get_bind") and callable(getattr(transaction, "connection", None)):
        found = transaction.connection()
        if isinstance(found, Connection):
            return found
    return None
