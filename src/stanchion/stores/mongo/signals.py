"""Wake-up across processes by a tailable cursor on a capped collection.

A signal is a document that names queues. Where the server has no capped collections, polling does it all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from weakref import WeakKeyDictionary

from pymongo import CursorType
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from stanchion.stores.broadcast import Broadcast, NoSignals
from stanchion.stores.mongo.faults import reason_of
from stanchion.stores.mongo.schema import SIGNALS, make_signals
from stanchion.stores.mongo.server import Server

_LOOK_MS = 1000


class Announcer(Protocol):
    """Takes the names of queues that may have work."""

    def announce(self, queues: Iterable[str]) -> None:
        """Wake the listeners of these queues."""

    def after(self, session: ClientSession) -> Announcer:
        """Return what keeps the signals of a transaction until it is known to be committed."""


class Signals(Broadcast):
    """Signals as documents."""

    def __init__(self, server: Server) -> None:
        self._server = server
        super().__init__()

    def begin(self) -> None:
        """Send to and listen for nobody."""
        super().begin()
        self._capped: bool | None = None
        self._held_back: WeakKeyDictionary[ClientSession, HeldBack] = WeakKeyDictionary()

    def after(self, session: ClientSession) -> HeldBack:
        """Return what keeps the signals of a transaction until it is known to be committed."""
        return self._held_back.setdefault(session, HeldBack())

    def committed(self, session: ClientSession) -> None:
        """Send the signals of a transaction."""
        self.announce(self.after(session).queues)

    def send(self, queues: set[str]) -> None:
        if self._capped is None:
            self._capped = make_signals(self._server.place)
        if self._capped:
            self._server.place.signals.insert_one({"queues": sorted(queues)})

    def receive(self) -> None:
        try:
            self._follow()
        except PyMongoError as error:
            raise ConnectionError(reason_of(error)) from error

    def _follow(self) -> None:
        """Wake whom signals are for, as they come.

        A cursor begins at the oldest signal: those up to the newest of this moment are old news. Ids are made by
        many clients, so that only the order in which signals lie in the collection tells which came first.
        """
        place = self._server.place
        self._capped = make_signals(place)
        if not self._capped:
            raise NoSignals("the server has no capped collections")
        newest = place.signals.find_one(sort=[("$natural", -1)])
        if newest is None:  # a cursor on an empty collection is dead at once
            newest = {"_id": place.signals.insert_one({"queues": []}).inserted_id}
        old = SIGNALS
        with place.signals.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(_LOOK_MS) as cursor:
            self.ready()
            while self.wanted():
                signal = next(cursor, None)
                if signal is None and not cursor.alive:
                    raise ConnectionError("the cursor on the signals has ended")
                if old:
                    old = 0 if signal is None or signal["_id"] == newest["_id"] else old - 1
                elif signal is not None:
                    self.listeners.wake(signal["queues"])


class HeldBack:
    """Keeps signals back."""

    def __init__(self) -> None:
        self.queues: set[str] = set()
        self.jobs: set[str] = set()
        """Jobs with duties that were noted in the transaction."""

    def announce(self, queues: Iterable[str]) -> None:
        """Keep them."""
        self.queues |= set(queues)

    def after(self, session: ClientSession) -> HeldBack:
        """Return this: the transaction is the same."""
        return self
