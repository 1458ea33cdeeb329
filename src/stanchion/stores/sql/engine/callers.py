"""The caller's transaction, in whatever form it is given.

AsyncSession, AsyncConnection ──► their synchronous form, run on the event loop
Session, scoped_session       ──► its connection
Django's connection           ──► its alias ──► the driver's connection
the driver's own connection   ──► itself

Signals wait for the commit of a caller's transaction, where SQLAlchemy's Session or Django reports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection

from stanchion.core.concurrency.caller import CALLER, awaited
from stanchion.errors import CannotJoin

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

T = TypeVar("T")

NOT_OPEN: Final = "the AsyncConnection given as tx is not open: await it, or use it in `async with`"


class Runs(Protocol):
    """Runs code."""

    def __call__(self, work: Callable[[], T], /) -> T: ...


class DjangoConnection(Protocol):
    """What is used of Django's connection with a database."""

    alias: str
    connection: object
    """The driver's own connection."""
    in_atomic_block: bool
    run_on_commit: Sequence[tuple[object, ...]]
    """For each function that waits for the commit: the savepoints around it, the function, and more."""

    def get_autocommit(self) -> bool:
        """Return whether Django commits each statement by itself."""

    def on_commit(self, work: Callable[[], None]) -> None:
        """Call `work` after the outermost commit."""


class Caller(NamedTuple):
    """A caller's transaction. One of `connection` and `driver` is there."""

    connection: Connection | None = None
    """The connection of SQLAlchemy."""
    driver: object = None
    """The driver's own connection."""
    session: Session | None = None
    """The SQLAlchemy Session that reports the end of the transaction."""
    django: DjangoConnection | None = None
    """Django's connection, which reports its commit."""
    on_loop: bool = False
    """The connection of SQLAlchemy has an asynchronous driver, and no greenlet runs this call."""

    @property
    def run(self) -> Runs:
        """Runs code that executes statements on the connection."""
        return in_greenlet if self.on_loop else at_once

    def raw(self) -> object:
        """Return the driver's own connection."""
        if self.connection is None:
            return self.driver
        return self.connection.connection.driver_connection


@contextmanager
def caller_of(transaction: object) -> Iterator[Caller]:
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


def session_of(transaction: Any) -> Session | None:
    """Return the Session behind a transaction that reports its commit; None for another transaction."""
    if callable(getattr(transaction, "registry", None)):  # a scoped_session, or its asynchronous form
        transaction = transaction.registry()
    transaction = getattr(transaction, "sync_session", transaction)
    # Without importing the ORM for callers that do not use it.
    return transaction if hasattr(transaction, "get_bind") and hasattr(transaction, "in_nested_transaction") else None


def _found(transaction: object) -> Caller:
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


def _is_scoped(transaction: Any, session: Session) -> bool:
    """Return whether this is a scoped_session whose session is synchronous."""
    return callable(getattr(transaction, "registry", None)) and transaction.registry() is session


def django_connection(transaction: object) -> DjangoConnection | None:
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
    found: DjangoConnection = transaction
    return found


def in_greenlet(work: Callable[[], T]) -> T:
    """Run synchronous code of SQLAlchemy that waits for an asynchronous driver; see `awaited`."""
    from sqlalchemy import util

    return awaited(lambda: util.greenlet_spawn(work))


def at_once(work: Callable[[], T]) -> T:
    """Run code in this thread."""
    return work()


_KEY = "stanchion"


class Announces(Protocol):
    """Wakes listeners."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake the listeners of these queues, or of the ends of these jobs, without waiting."""


def announce_after_commit(
    caller: Caller, signals: Announces, queues: Iterable[str], finished: Collection[str] = ()
) -> bool:
    """Announce once the outermost transaction is committed; return False if this caller does not report it."""
    names, ended = set(queues), set(finished)
    if caller.django is not None:
        if not caller.django.in_atomic_block:  # its autocommit is off, and Django does not know of commits
            return False
        caller.django.on_commit(lambda: signals.announce(names, ended))
        return True
    if caller.session is None:
        return False
    waiting = caller.session.info.get(_KEY)
    if waiting is None:
        from sqlalchemy import event

        waiting = caller.session.info[_KEY] = {}
        event.listen(caller.session, "after_commit", _committed)
        event.listen(caller.session, "after_rollback", _rolled_back)
    all_names, all_ended = waiting.setdefault(signals, (set(), set()))
    all_names.update(names)
    all_ended.update(ended)
    return True


def _committed(session: Session) -> None:
    if session.in_nested_transaction():  # a savepoint, which the outer transaction may still roll back
        return
    waiting = dict(session.info[_KEY])
    session.info[_KEY].clear()
    for signals, news in waiting.items():
        signals.announce(*news)


def _rolled_back(session: Session) -> None:
    if not session.in_nested_transaction():  # what came before a savepoint may still be committed
        session.info[_KEY].clear()
