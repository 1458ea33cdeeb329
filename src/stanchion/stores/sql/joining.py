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
        ours, theirs = database.engine.dialect.name, connection.dialect.name
        if theirs != ours:
            raise CannotJoin(f"tx is on {theirs}, the queue on {ours}; both must be in one database to commit as one")
        return AlchemyRunner(connection, database.given())
    if database.dialect.owns(transaction):
        _ = database.engine  # the compiler comes with it
        return CursorRunner(database.dialect.cursor(transaction), database.compiler, database.given())
    raise CannotJoin(
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
