"""Wake-up across processes by a tailable cursor on a capped collection.

A signal is a document that names queues with work, or jobs that have ended. Where the server has no capped
collections, polling does it all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from pymongo import CursorType
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from stanchion.stores.cas.entries import Entry
from stanchion.stores.mongo.client.errors import reason_of
from stanchion.stores.mongo.client.schema import SIGNALS, make_signals
from stanchion.stores.mongo.client.server import Server
from stanchion.stores.wakeup.broadcast import Broadcast, Kind, NoSignals, Reception

_LOOK_MS = 1000
_WANTED = {Kind.WORK: {"queues.0": {"$exists": True}}, Kind.ENDS: {"ends.0": {"$exists": True}}}
_ANY = "*"
"""Says that more jobs have ended than a signal names."""


class Announcer(Protocol):
    """Takes the names of queues that may have work, and the ids of jobs that have ended."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake who waits for work in these queues, or for the ends of these jobs."""


class Signals(Broadcast):
    """Signals as documents."""

    def __init__(self, server: Server) -> None:
        self._server = server
        super().__init__()

    def begin(self) -> None:
        """Send to and listen for nobody."""
        super().begin()
        self._capped: bool | None = None
        self._after_commit: WeakKeyDictionary[ClientSession, AfterCommit] = WeakKeyDictionary()

    def after(self, session: ClientSession) -> AfterCommit:
        """Return what a transaction leaves for after its commit."""
        return self._after_commit.setdefault(session, AfterCommit())

    def committed(self, session: ClientSession) -> None:
        """Send the signals of a transaction."""
        left = self.after(session)
        self.announce(left.queues, left.finished)

    def send(self, queues: set[str], finished: set[str] | None) -> None:
        if self._capped is None:
            self._capped = make_signals(self._server.place)
        signals: list[dict[str, Any]] = [{"queues": sorted(queues)}] if queues else []
        if finished is None or finished:
            # A release that knows of no ends looks for the queues in each signal.
            signals.append({"queues": [], "ends": [_ANY] if finished is None else sorted(finished)})
        if self._capped and signals:
            self._server.place.signals.insert_many(signals)

    def receive(self, reception: Reception) -> None:
        try:
            self._follow(reception)
        except PyMongoError as error:
            raise ConnectionError(reason_of(error)) from error

    def _follow(self, reception: Reception) -> None:
        """Wake whom signals are for, as they come.

        A cursor begins at the oldest signal: those up to the newest of this moment were heard before. Ids are made by
        many clients, so that only the order in which signals lie in the collection tells which came first.
        """
        place = self._server.place
        self._capped = make_signals(place)
        if not self._capped:
            raise NoSignals("the server has no capped collections")
        wanted = _WANTED[reception.kind]
        newest = place.signals.find_one(wanted, sort=[("$natural", -1)])
        if newest is None:  # a cursor that finds nothing is dead at once
            newest = {"_id": place.signals.insert_one({"queues": [""], "ends": [""]}).inserted_id}
        old = SIGNALS
        with place.signals.find(wanted, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(_LOOK_MS) as cursor:
            reception.ready()
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
    """What a transaction of a caller leaves for after its commit: signals, and outbox entries.

    Applied within the transaction, entries would be in the way of all others. Where the commit is not known to this
    store, outbox recovery applies them.
    """

    def __init__(self) -> None:
        self.queues: set[str] = set()
        self.finished: set[str] = set()
        self.jobs: set[str] = set()
        """Jobs with outbox entries of the transaction."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Keep signals back."""
        self.queues |= set(queues)
        self.finished |= set(finished)

    def follow_up(self, entries: Sequence[Entry]) -> None:
        """Keep in mind which jobs have entries."""
        self.jobs.update(entry.job for entry in entries)
