"""Calls in callers' transactions: on the managers' database, and reported to them after the commit.

The store of the database refuses a transaction that is elsewhere. So it remains to know that the managers use the same
one: then the session of one of them lives in it. In a copy of the database none lives, as it is not renewed there.

    settled in a transaction ──► open ──► committed: the job no longer runs under its token ──► reported
                                   └────► rolled back: it does, and remains held

Only the database knows whether a transaction was committed. So it is polled: immediately if a session reports its end,
otherwise at growing intervals.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import CannotJoin
from stanchion.stores.ports import Transactions
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.leases.sessions import SESSION, session_row
from stanchion.stores.wakeup.broadcast import started

log = logging.getLogger("stanchion.grpc")

FIRST, LONGEST = 0.02, 1.0
"""Seconds between two polls: initially, and after a long time without a commit."""

_MOST: Final = 500
"""Maximum number of jobs per poll."""

_RUNNING: Final = JobState.RUNNING.value
_COLUMNS: Final = ("id", "token", "state")

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


class Commits:
    """Polls for commits in a thread, while jobs wait for them.

    `held`: returns the leases, of the given ones, under which a worker of this process still holds a job. `committed`:
    called with the leases that have ended.
    """

    def __init__(
        self, held: Callable[[Collection[Lease]], list[Lease]], committed: Callable[[Collection[Lease]], None]
    ) -> None:
        self._held, self._committed = held, committed
        reset_after_fork(self)

    def begin(self) -> None:
        """Start with no jobs, and no thread; also after a fork."""
        self._changed = threading.Condition()
        self._open: set[Lease] = set()
        self._running = self._ended = False
        self._pause = self._look_at = 0.0

    def wait_for(self, store: Store, leases: Collection[Lease], transaction: object) -> None:
        """Notify the managers of these jobs once the transaction that settled them is committed."""
        mine = self._held(leases)
        if not mine:
            return
        _listen(transaction, self.ended)
        with self._changed:
            self._open.update(mine)
            soon = time.monotonic() + FIRST
            self._pause, self._look_at = FIRST, min(self._look_at, soon) if self._running else soon
            self._changed.notify_all()
            if not self._running:
                self._running = True
                started(lambda: self._run(store), "stanchion-commits")

    def ended(self) -> None:
        """Record that a transaction may have ended: poll immediately."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """Look no more."""
        with self._changed:
            self._open.clear()
            self._changed.notify_all()

    def _run(self, store: Store) -> None:
        while (leases := self._next()) is not None:
            try:
                over = self._over(store, leases)
            except Exception as error:  # whatever it is, the next poll may succeed
                log.warning("not known which transactions have ended: %s", error)
                continue
            self._committed(over)
            with self._changed:
                self._open.difference_update(over)
                self._open.intersection_update(self._held(self._open))

    def _next(self) -> list[Lease] | None:
        """Wait until the next poll is due; return its jobs, or None if there are none."""
        with self._changed:
            while self._open and not self._ended and (left := self._look_at - time.monotonic()) > 0:
                self._changed.wait(left)
            self._ended = False
            self._pause = min(2 * self._pause, LONGEST)
            self._look_at = time.monotonic() + self._pause
            self._running = bool(self._open)
            return list(self._open) or None

    def _over(self, store: Store, leases: Sequence[Lease]) -> list[Lease]:
        """Return the jobs that no longer run under their tokens."""
        over: list[Lease] = []
        for start in range(0, len(leases), _MOST):
            part = leases[start : start + _MOST]
            where = (Condition("id", "in", tuple(lease.id for lease in part)),)
            rows = store.select(Query("live", where, limit=_MOST, columns=_COLUMNS)).rows
            running = {(job, token) for job, token, state in rows if state == _RUNNING}
            over += [lease for lease in part if (lease.id, lease.token) not in running]
        return over


def _listen(transaction: object, ended: Callable[[], None]) -> None:
    """Observe the commit of a SQLAlchemy Session; other transactions don't report it."""
    if hasattr(transaction, "run_sync") or hasattr(transaction, "get_bind"):
        from sqlalchemy import event

        from stanchion.stores.sql.engine.callers import session_of

        if (session := session_of(transaction)) is not None:
            event.listen(session, "after_commit", lambda _: ended(), once=True)
