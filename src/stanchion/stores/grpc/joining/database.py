"""The managers' database, for calls in the caller's transaction.

The store of the database refuses a transaction that is elsewhere. So it remains to know that the managers use the same
one: then the session of one of them lives in it. In a copy of the database none lives, as it is not renewed there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import CannotJoin
from stanchion.stores.ports import Transactions
from stanchion.stores.protocol import Store
from stanchion.stores.rules.leases.sessions import SESSION, session_row

_PAUSE = 0.5
_NEW_SECONDS, _LATE_SECONDS = 2.0, 15.0
"""Seconds between two polls; a session may be missing for as long, as it is a new one, or be renewed late."""


class ManagersDatabase:
    """The database's store, once it is verified to be the managers'. `store`: None if no database was given.

    `sessions`: returns the ids of the managers' sessions. `managers`: their URL, for messages.
    """

    def __init__(self, store: Store | None, sessions: Callable[[], Sequence[str]], managers: str) -> None:
        self._store, self._sessions, self._managers = store, sessions, managers
        self._known = False
        reset_after_fork(self)

    def begin(self) -> None:
        """Start; also after a fork."""
        self._lock = threading.Lock()

    @property
    def given(self) -> bool:
        """True if calls may be part of a transaction."""
        return self._store is not None

    @property
    def store(self) -> Store:
        """Its store. Raises CannotJoin if there is none, or if the managers use another database."""
        if self._store is None:
            raise CannotJoin(
                "a job that goes through a manager can't be part of your transaction, as the manager has a separate "
                "connection: leave tx out, or name the database of the managers too, as in "
                "Stanchion('grpc://...', database='postgresql://...')"
            )
        with self._lock:
            if not self._known:
                self._store.check()
                self._must_be_theirs(self._store)
                self._known = True
        return self._store

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction of the database. Raises CannotJoin if there is none."""
        found = self.store.extension(Transactions)
        assert found is not None  # noqa: S101 - the registry refuses a database without
        return found.transaction()

    def close(self) -> None:
        """Release its connections; a later call opens them again."""
        if self._store is not None:
            self._store.close()

    def _must_be_theirs(self, store: Store) -> None:
        """Only read: on SQLite a write would wait for the caller's transaction."""
        began = time.monotonic()
        while True:
            found = store.values(SESSION, self._sessions())
            now = store.now()
            if any(session_row(one).until > now for one in found):
                return
            if time.monotonic() > began + (_LATE_SECONDS if found else _NEW_SECONDS):
                break
            time.sleep(_PAUSE)
        instead = "a copy of the database" if found else "another database than that"
        raise CannotJoin(
            f"database= names {instead} of the managers at {self._managers}, so nothing could be committed as one: "
            f"give the URL that they have"
        )
