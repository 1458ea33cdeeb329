"""Taking part in the caller's transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Connection

from stanchion.errors import CannotJoin
from stanchion.stores.sql.connection import AlchemyRunner, CursorRunner, Runner
from stanchion.stores.sql.database import Database


def join(database: Database, transaction: Any) -> Runner:
    """Return a runner of statements inside the caller's transaction.

    Takes a SQLAlchemy Session or Connection, and the driver's own connection. Raises CannotJoin for
    anything else, and for a transaction on another kind of database.
    """
    connection = alchemy_connection(transaction)
    if connection is not None:
        theirs = connection.dialect.name
        if theirs not in database.dialect.names:
            ours = database.dialect.capabilities.name
            raise CannotJoin(f"tx is on {theirs}, the queue on {ours}; both must be in one database to commit as one")
        if not connection.in_transaction():
            connection.begin()  # as its first statement would have done
        driver: Any = connection.connection.driver_connection
        if not database.dialect.owns(driver):
            return AlchemyRunner(connection, database.given())
    elif database.dialect.owns(transaction):
        driver = transaction
    else:
        raise _stranger(database, transaction)
    database.dialect.must_be_open(driver)
    _ = database.engine  # the compiler comes with it
    return CursorRunner(database.dialect.cursor(driver), database.compiler, database.given())


def _stranger(database: Database, transaction: Any) -> CannotJoin:
    return CannotJoin(
        f"tx must be a SQLAlchemy Session or Connection, or an open {database.engine.dialect.driver} connection, "
        f"not {type(transaction).__name__}; in asyncio use `await session.run_sync(lambda s: ... tx=s)`"
    )


def alchemy_connection(transaction: Any) -> Connection | None:
    """Return the connection of a SQLAlchemy Session or Connection."""
    if isinstance(transaction, Connection):
        return transaction
    # Session and scoped_session, without importing the ORM for those who don't use it.
    if hasattr(transaction, "get_bind") and callable(getattr(transaction, "connection", None)):
        found = transaction.connection()
        if isinstance(found, Connection):
            return found
    return None
