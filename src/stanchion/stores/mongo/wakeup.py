"""Wake-up across processes by a tailable cursor on a capped collection.

A signal is a document that names queues with work, or jobs that have ended. Without capped collections, only polling
wakes listeners.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Protocol
from weakref import WeakKeyDictionary

import pymongo
from pymongo import CursorType
from pymongo.cursor import Cursor
from pymongo.errors import PyMongoError

from stanchion.stores.cas.entries import Entry
from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.errors import reason_of
from stanchion.stores.mongo.client.on_loop import AnySession
from stanchion.stores.mongo.client.schema import SIGNALS, make_signals
from stanchion.stores.mongo.client.server import Server, patience_of
from stanchion.stores.wakeup.broadcast import Broadcast, Kind, NoSignals, Reception

_KILL_SECONDS = 1.0
_WANTED = {Kind.WORK: {"queues.0": {"$exists": True}}, Kind.ENDS: {"ends.0": {"$exists": True}}}
_ANY = "*"
"""Stands for more ended jobs than a signal names."""


class Announcer(Protocol):
    """Announces queues that may have work, and ids of ended jobs."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake listeners for work in these queues, or for ends of these jobs."""


class Signals(Broadcast):
    """Signals as documents."""

    def __init__(self, server: Server) -> None:
        self._server = server
        super().__init__()

    def begin(self) -> None:
        """Start with nothing to send and no threads; also after a fork."""
        super().begin()
        self._capped: bool | None = None
        self._tails: set[Cursor[Document]] = set()
        self._after_commit: WeakKeyDictionary[AnySession, AfterCommit] = WeakKeyDictionary()

    def close(self) -> None:
        """End all waits, also on the server, which the driver would leave alone; send unsent signals."""
        super().close()
        for cursor in [*self._tails]:
            with suppress(PyMongoError), pymongo.timeout(_KILL_SECONDS):
                cursor.collection.database.command("killCursors", cursor.collection.name, cursors=[cursor.cursor_id])

    def after(self, session: AnySession) -> AfterCommit:
        """Return the object that collects the work of a transaction for after its commit."""
        return self._after_commit.setdefault(session, AfterCommit())

    def committed(self, session: AnySession) -> None:
        """Send the signals of a transaction."""
        left = self.after(session)
        self.announce(left.queues, left.finished)

    def send(self, queues: set[str], finished: set[str] | None) -> None:
        if self._capped is None:
            self._capped = make_signals(self._server.place)
        signals: list[dict[str, object]] = [{"queues": sorted(queues)}] if queues else []
        if finished is None or finished:
            # A release without signals for ends reads the queues in each signal.
            signals.append({"queues": [], "ends": [_ANY] if finished is None else sorted(finished)})
        if self._capped and signals:
            self._server.place.signals.insert_many(signals)

    def receive(self, reception: Reception) -> None:
        try:
            self._follow(reception)
        except PyMongoError as error:
            raise ConnectionError(reason_of(error)) from error

    def _follow(self, reception: Reception) -> None:
        """Wake the listeners of signals as they arrive.

        A cursor begins at the oldest signal; signals up to the present newest were handled before. Many clients make
        ids, so only the order within the collection shows which signal was first.
        """
        place = self._server.place_of_tails
        self._capped = make_signals(place)
        if not self._capped:
            raise NoSignals("the server has no capped collections")
        wanted = _WANTED[reception.kind]
        newest = place.signals.find_one(wanted, sort=[("$natural", -1)])
        if newest is None:  # a cursor on an empty collection dies immediately
            newest = {"_id": place.signals.insert_one({"queues": [""], "ends": [""]}).inserted_id}
        patience = int(patience_of(place.database.client) * 1000)
        with place.signals.find(wanted, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(patience) as cursor:
            self._tails.add(cursor)
            try:
                reception.ready()
                self._read(cursor, newest, reception)
            finally:
                self._tails.discard(cursor)

    def _read(self, cursor: Cursor[Document], newest: Document, reception: Reception) -> None:
        old = SIGNALS
        while reception.wanted():
            signal = next(cursor, None)
            if signal is None and not cursor.alive:
                raise ConnectionError("the cursor on the signals has ended")
            if old:
                old = 0 if signal is None or signal["_id"] == newest["_id"] else old - 1
            elif signal is not None:
                ends = signal.get("ends", [])
                self.listeners.wake(signal["queues"], None if _ANY in ends else ends)


class AfterCommit:
    """The work that a caller's transaction postpones until after its commit: signals, and outbox entries.

    Entries applied within the transaction would block all other processes. If this store does not see the commit,
    outbox recovery applies them.
    """

    def __init__(self) -> None:
        self.queues: set[str] = set()
        self.finished: set[str] = set()
        self.jobs: set[str] = set()
        """Jobs with outbox entries of the transaction."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Postpone signals."""
        self.queues |= set(queues)
        self.finished |= set(finished)

    def follow_up(self, entries: Sequence[Entry]) -> None:
        """Remember the jobs that have entries."""
        self.jobs.update(entry.job for entry in entries)
