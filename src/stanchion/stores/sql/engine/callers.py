"""The caller's transaction, in whatever form it is given.

AsyncSession, AsyncConnection ──► their synchronous form, run on the event loop
Session, scoped_session       ──► its connection
Django's connection           ──► its alias ──► the driver's connection
the driver's own connection   ──► itself
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from stanchion.core.concurrency.caller import CALLER
from stanchion.errors import CannotJoin
from stanchion.stores.sql.engine.on_loop import at_once, in_greenlet

NOT_OPEN: Final = "the AsyncConnection given as tx is not open: await it, or use it in `async with`"


class Caller(NamedTuple):
    """A caller's transaction. One of `connection` and `driver` is there."""

    connection: Connection | None = None
    """The connection of SQLAlchemy."""
    driver: Any = None
    """The driver's own connection."""
    session: Any = None
    """The SQLAlchemy Session that reports the end of the transaction."""
    django: Any = None
    """Django's connection, which reports its commit."""
    on_loop: bool = False
    """The connection of SQLAlchemy has an asynchronous driver, and no greenlet runs this call."""

    @property
    def run(self) -> Callable[[Callable[[], Any]], Any]:
        """Runs code that executes statements on the connection."""
        return in_greenlet if self.on_loop else at_once

    def raw(self) -> Any:
        """Return the driver's own connection."""
        if self.connection is None:
            return self.driver
        return self.connection.connection.driver_connection


@contextmanager
def caller_of(transaction: Any) -> Iterator[Caller]:
    """Find the connection of a caller's transaction.

    Outside of `atomic`, Django commits each statement by itself: the block is then a transaction of its own.
    """
    if (wrapper := django_connection(transaction)) is None:
        yield _found(transaction)
    elif wrapper.in_atomic_block or not wrapper.get_autocommit():
        yield Caller(driver=wrapper.connection, django=wrapper)
    else:
        from django.db.transaction import atomic

        with atomic(using=wrapper.alias):
            yield Caller(driver=wrapper.connection, django=wrapper)


def session_of(transaction: Any) -> Any:
    """Return the Session behind a transaction that reports its commit; None for another transaction."""
    if callable(getattr(transaction, "registry", None)):  # a scoped_session, or its asynchronous form
        transaction = transaction.registry()
    transaction = getattr(transaction, "sync_session", transaction)
    # Without importing the ORM for callers that do not use it.
    return transaction if hasattr(transaction, "get_bind") and hasattr(transaction, "in_nested_transaction") else None


def _found(transaction: Any) -> Caller:
    if isinstance(transaction, Connection):
        return Caller(transaction)
    if (session := session_of(transaction)) is not None:
        on_loop = session is not transaction and not _is_scoped(transaction, session)
        found = (in_greenlet if on_loop else at_once)(session.connection)
        return Caller(found, session=session, on_loop=on_loop)
    if hasattr(transaction, "sync_connection") and hasattr(transaction, "run_sync"):
        if transaction.sync_connection is None:
            raise CannotJoin(NOT_OPEN)
        return Caller(transaction.sync_connection, on_loop=True)
    return Caller(driver=transaction)


def _is_scoped(transaction: Any, session: Any) -> bool:
    """Return whether this is a scoped_session whose session is synchronous."""
    return callable(getattr(transaction, "registry", None)) and transaction.registry() is session


def django_connection(transaction: Any) -> Any:
    """Return Django's connection with a database, also behind its proxy for the default alias; None for others."""
    if "django.db" not in sys.modules:
        return None
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.utils.connection import ConnectionProxy

    if isinstance(transaction, ConnectionProxy):
        transaction = transaction._connections[transaction._alias]
    if not isinstance(transaction, BaseDatabaseWrapper):
        return None
    if CALLER.get() is not None:
        raise CannotJoin(
            "a connection of Django belongs to the thread that opened its transaction, and this call has another: make "
            "the synchronous call there, in the function that sync_to_async runs"
        )
    transaction.ensure_connection()
    return transaction
