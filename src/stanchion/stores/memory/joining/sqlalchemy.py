"""Follows sessions and connections of SQLAlchemy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet, ref

from sqlalchemy import event
from sqlalchemy.engine import Connection, RootTransaction, Transaction
from sqlalchemy.orm import Session, SessionTransaction

from stanchion.errors import CannotJoin
from stanchion.stores.memory.joining.journal import Entry, Journal, Target
from stanchion.stores.sql.engine.callers import NOT_OPEN
from stanchion.stores.sql.engine.dialect import AUTOCOMMIT


def watched(tx: object) -> tuple[object, Callable[[Target], SessionFollower | ConnectionFollower]] | None:
    """Return the session or connection to watch, and what makes its follower; None for anything else."""
    if not isinstance(tx, Session | Connection) and callable(registry := getattr(tx, "registry", None)):
        tx = registry()  # scoped_session and async_scoped_session
    if (opened := getattr(tx, "sync_connection", tx)) is None:
        raise CannotJoin(NOT_OPEN)
    tx = getattr(opened, "sync_session", opened)
    if isinstance(tx, Session):
        return tx, partial(SessionFollower, tx)
    return (tx, partial(ConnectionFollower, tx)) if isinstance(tx, Connection) else None


class _Nested:
    """A journal whose calls belong to transactions that may be nested.

    The commit of a nested one passes its calls on to the one around it; its rollback forgets them.
    """

    def __init__(self, target: Target) -> None:
        self.journal = Journal(target)
        self._within: list[object] = []
        """For each entry of the journal, the innermost transaction of its call."""

    def add(self, entry: Entry, within: object) -> None:
        self.journal.entries.append(entry)
        self._within.append(within)

    def committed(self) -> None:
        """The outermost transaction has committed."""
        self._within = []
        self.journal.committed()

    def released(self, transaction: object, around: object) -> None:
        """A nested transaction has committed."""
        self._within = [around if within is transaction else within for within in self._within]

    def forget(self, ended: Callable[[object], bool]) -> None:
        """Forget the calls of transactions that were rolled back."""
        pairs = zip(self.journal.entries, self._within, strict=True)
        left = [(entry, within) for entry, within in pairs if not ended(within)]
        self.journal.entries, self._within = [entry for entry, _ in left], [within for _, within in left]


class SessionFollower:
    """Watches a session, whatever it is bound to.

    So a session that a test has joined to an outer transaction commits for the code under test.
    """

    def __init__(self, session: Session, target: Target) -> None:
        self._session, self._calls = ref(session), _Nested(target)
        event.listen(session, "after_commit", self._committed)
        event.listen(session, "after_transaction_end", self._ended)

    @property
    def journal(self) -> Journal:
        """The calls of the transaction that is open now."""
        return self._calls.journal

    def add(self, entry: Entry) -> None:
        """Add a call to the innermost transaction, begun if there is none."""
        session = self._session()
        assert session is not None  # noqa: S101 - the caller has just passed it
        self._calls.add(entry, session.get_nested_transaction() or session.get_transaction() or session.begin())

    def close(self) -> None:
        """Stop watching."""
        if (session := self._session()) is not None:
            event.remove(session, "after_commit", self._committed)
            event.remove(session, "after_transaction_end", self._ended)

    def _committed(self, session: Session) -> None:
        nested = session.get_nested_transaction()
        if nested is None:
            self._calls.committed()
        else:
            self._calls.released(nested, nested.parent)

    def _ended(self, _: Session, transaction: SessionTransaction) -> None:
        self._calls.forget(lambda within: within is transaction or transaction.parent is None)


class ConnectionFollower:
    """Watches the transactions of a connection. No event comes after a commit, so their classes are replaced."""

    def __init__(self, connection: Connection, target: Target) -> None:
        self._connection, self._calls = ref(connection), _Nested(target)

    @property
    def journal(self) -> Journal:
        """The calls of the transaction that is open now."""
        return self._calls.journal

    def add(self, entry: Entry) -> None:
        """Add a call to the innermost transaction, begun if there is none."""
        connection = self._connection()
        assert connection is not None  # noqa: S101 - the caller has just passed it
        if connection._is_autocommit_isolation():
            raise CannotJoin(AUTOCOMMIT)
        root = connection.get_transaction() or connection.begin()
        innermost = connection.get_nested_transaction() or root
        self._calls.add(entry, innermost)
        for transaction in (root, innermost):
            self._watch(transaction)

    def close(self) -> None:
        """Forget the calls of open transactions."""
        self._calls.forget(lambda _: True)

    def committed(self, transaction: object) -> None:
        """A transaction has committed."""
        connection = self._connection()
        if connection is None or isinstance(transaction, RootTransaction):
            self._calls.committed()
            return
        around = connection.get_nested_transaction() or connection.get_transaction()
        self._calls.released(transaction, around)
        if around is not None:
            self._watch(around)

    def _watch(self, transaction: object) -> None:
        _FOLLOWERS.setdefault(transaction, WeakSet()).add(self)
        if not isinstance(transaction, _Watched):
            transaction.__class__ = _watching(type(transaction))

    def rolled_back(self, transaction: object) -> None:
        """A transaction was rolled back."""
        root = isinstance(transaction, RootTransaction)
        self._calls.forget(lambda within: root or within is transaction)


_FOLLOWERS: WeakKeyDictionary[object, WeakSet[ConnectionFollower]] = WeakKeyDictionary()
"""The followers of a transaction of a connection: one for each store that has got its calls."""


if TYPE_CHECKING:
    _Base = Transaction
else:
    _Base = object  # a class with slots has one base with slots at most


class _Watched(_Base):
    """What a transaction of a connection tells its followers when it has ended."""

    __slots__ = ()

    def commit(self) -> None:
        super().commit()
        for follower in list(_FOLLOWERS.pop(self, ())):
            follower.committed(self)

    def rollback(self) -> None:
        self._tell_of_rollback()
        super().rollback()

    def close(self) -> None:
        self._tell_of_rollback()
        super().close()

    def _tell_of_rollback(self) -> None:
        for follower in list(_FOLLOWERS.pop(self, ())):
            follower.rolled_back(self)


def _watching(kind: type[object]) -> type[object]:
    """Return a class of transactions that tell their followers of their end."""
    if kind not in _CLASSES:
        _CLASSES[kind] = type(f"Watched{kind.__name__}", (_Watched, kind), {"__slots__": ()})
    return _CLASSES[kind]


_CLASSES: dict[type[object], type[object]] = {}
