"""Followers: each watches one session or connection of another library for commits and rollbacks.

| `tx` | followed by |
| --- | --- |
| SQLAlchemy `Session`, `scoped_session`, `AsyncSession` | `after_commit` and `after_transaction_end` of the session |
| SQLAlchemy `Connection`, `AsyncConnection` | `commit()` of its transaction; the events of savepoints |
| Django's `connection` | `on_commit` |

A connection of a plain driver reports neither commits nor rollbacks, so it is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import NoReturn, Protocol
from weakref import WeakKeyDictionary

from stanchion.errors import CannotJoin
from stanchion.stores.memory.joining.journal import Entry, Journal, Target


class Follower(Protocol):
    """Watches one session or connection, and ends its journal with its transaction."""

    @property
    def journal(self) -> Journal:
        """The calls of the transaction that is open now."""

    def add(self, entry: Entry) -> None:
        """Add a call to the journal."""

    def close(self) -> None:
        """Stop watching."""


class Followers:
    """The followers of all sessions and connections that were passed as `tx`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._by_watched: WeakKeyDictionary[object, Follower] = WeakKeyDictionary()

    def of(self, tx: object) -> Follower:
        """Return the follower of what was passed as `tx`."""
        watched, make = _kind(tx)
        if (follower := self._by_watched.get(watched)) is None:
            follower = self._by_watched[watched] = make(self._target)
        return follower

    def close(self) -> None:
        """Stop watching."""
        for follower in list(self._by_watched.values()):
            follower.close()
        self._by_watched.clear()


def _kind(tx: object) -> tuple[object, Callable[[Target], Follower]]:
    """Return the object to watch, and what makes its follower."""
    if "django.db" in sys.modules:
        from stanchion.stores.memory.joining.django import DjangoFollower
        from stanchion.stores.sql.engine.callers import django_connection

        if (connection := django_connection(tx)) is not None:
            return connection, partial(DjangoFollower, connection)
    if type(tx).__module__.partition(".")[0] != "sqlalchemy" and not _is_sqlalchemy(tx):
        _refuse(tx)
    from stanchion.stores.memory.joining import sqlalchemy as alchemy

    return alchemy.watched(tx) or _refuse(tx)


def _is_sqlalchemy(tx: object) -> bool:
    """Return whether it is of a class derived from one of SQLAlchemy's, or stands for such a session."""
    names = {cls.__module__.partition(".")[0] for cls in type(tx).__mro__}
    return "sqlalchemy" in names or hasattr(tx, "registry")


def _refuse(tx: object) -> NoReturn:
    name = f"{type(tx).__module__.partition('.')[0]}.{type(tx).__qualname__}"
    raise CannotJoin(
        f"app.testing() can't see when a {name} commits: pass a SQLAlchemy Session or Connection, Django's connection, "
        f"or the transaction of app.transaction(); or test with your database, by "
        f"app.testing(url='sqlite:///test.db') or the URL of another test database"
    )
