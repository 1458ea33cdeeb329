"""Wake-up across processes by a tailable cursor on a capped collection.

A signal is a document that names queues. It is sent beside the write, by a thread of its own, and signals that pile
up meanwhile are sent as one. One that gets lost costs at most one poll; where the server has no capped collections,
polling does it all.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol

from pymongo import CursorType
from pymongo.client_session import ClientSession

from stanchion.stores.forks import begins_anew
from stanchion.stores.mongo.places import Place
from stanchion.stores.mongo.schema import SIGNALS, make_signals
from stanchion.stores.mongo.server import Server
from stanchion.stores.wakeup import EventListener

log = logging.getLogger("stanchion.mongo")

_APART_SECONDS = 0.005
_LONGEST_PAUSE = 5.0
_READY_SECONDS = 1.0
_IDLE_SECONDS = 60.0
_LOOK_MS = 1000


class Announcer(Protocol):
    """Takes the names of queues that may have work."""

    def announce(self, queues: Iterable[str]) -> None:
        """Wake the listeners of these queues."""

    def after(self, session: ClientSession) -> Announcer:
        """Return what keeps the signals of a transaction until it is known to be committed."""


class Signals:
    """One thread that sends, one that listens, each made when first needed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        begins_anew(self)

    def begin(self) -> None:
        """Send to and listen for nobody."""
        self._state = threading.Condition()
        self._unsent: set[str] = set()
        self._ending = False
        self._capped: bool | None = None
        self._sending: threading.Thread | None = None
        self._listening: threading.Thread | None = None
        self._heard = threading.Event()
        self._listeners: weakref.WeakKeyDictionary[EventListener, frozenset[str]] = weakref.WeakKeyDictionary()
        self._held_back: weakref.WeakKeyDictionary[ClientSession, HeldBack] = weakref.WeakKeyDictionary()

    def announce(self, queues: Iterable[str]) -> None:
        """Wake the listeners of these queues: here at once, elsewhere by a signal sent soon."""
        names = set(queues)
        if not names:
            return
        with self._state:
            self._wake(names)
            self._unsent |= names
            self._ending = False
            if self._sending is None or not self._sending.is_alive():
                self._sending = self._start(self._send, "stanchion-signal")
            self._state.notify_all()

    def after(self, session: ClientSession) -> HeldBack:
        """Return what keeps the signals of a transaction until it is known to be committed."""
        return self._held_back.setdefault(session, HeldBack())

    def committed(self, session: ClientSession) -> None:
        """Send the signals of a transaction."""
        self.announce(self.after(session).queues)

    def listen(self, queues: Iterable[str]) -> EventListener:
        """Return a listener that signals for these queues wake."""
        listener = EventListener(self._forget)
        with self._state:
            self._listeners[listener] = frozenset(queues)
            if self._listening is None or not self._listening.is_alive():
                self._heard.clear()
                self._listening = self._start(self._receive, "stanchion-tail")
        # What is pushed from here on gives a sign; where that can't be had soon, polling must do.
        self._heard.wait(_READY_SECONDS)
        return listener

    def close(self) -> None:
        """End all waits, and send what is unsent; the threads end by themselves."""
        with self._state:
            self._wake(None)
            self._listeners.clear()
            self._ending = True
            self._state.notify_all()
            sending = self._sending
        if sending is not None:
            sending.join(_READY_SECONDS)

    def _start(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def _forget(self, listener: EventListener) -> None:
        with self._state:
            self._listeners.pop(listener, None)

    def _wake(self, queues: set[str] | None) -> None:
        """Wake the listeners of these queues; of all for None. The lock is held."""
        for listener, wanted in list(self._listeners.items()):
            if queues is None or wanted & queues:
                listener.wake()

    def _send(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._unsent or self._ending, _IDLE_SECONDS)
                if not self._unsent:
                    self._sending = None
                    return
                names, self._unsent = self._unsent, set()
            try:
                if self._capped is None:
                    self._capped = make_signals(self._server.place)
                if self._capped:
                    self._server.place.signals.insert_one({"queues": sorted(names)})
            except Exception as error:  # lost signals are what polling is for
                log.debug("the signal for %s was not sent: %s", sorted(names), error)
            time.sleep(_APART_SECONDS)

    def _receive(self) -> None:
        pause = 0.1
        while self._wanted():
            try:
                self._capped = make_signals(self._server.place)
                if not self._capped:
                    log.info("the server has no capped collections: polling does without signals")
                    self._end_listening()
                    return
                self._tail(self._server.place)
                pause = 0.1
            except Exception as error:  # whatever it is, polling goes on and so does the next try
                if not self._wanted():
                    return
                log.warning("not listening for wake-ups (%s); polling meanwhile, next try in %.1f s", error, pause)
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _tail(self, place: Place) -> None:
        """Wake whom signals are for, as they come, as long as anybody listens.

        A cursor begins at the oldest signal: those up to the newest of this moment are old news. Ids are made by
        many clients, so that only the order in which signals lie in the collection tells which came first.
        """
        newest = place.signals.find_one(sort=[("$natural", -1)])
        if newest is None:  # a cursor on an empty collection is dead at once
            newest = {"_id": place.signals.insert_one({"queues": []}).inserted_id}
        old = SIGNALS
        with place.signals.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(_LOOK_MS) as cursor:
            if self._heard.is_set():  # connected again: what was pushed meanwhile gave no sign
                with self._state:
                    self._wake(None)
            self._heard.set()
            while self._wanted():
                signal = next(cursor, None)
                if signal is None and not cursor.alive:
                    raise ConnectionError("the cursor on the signals has ended")
                if old:
                    old = 0 if signal is None or signal["_id"] == newest["_id"] else old - 1
                elif signal is not None:
                    with self._state:
                        self._wake(set(signal["queues"]))

    def _wanted(self) -> bool:
        with self._state:
            if not self._listeners:
                self._listening = None
                return False
            return True

    def _end_listening(self) -> None:
        with self._state:
            self._listening = None
        self._heard.set()


class HeldBack:
    """Keeps signals back."""

    def __init__(self) -> None:
        self.queues: set[str] = set()

    def announce(self, queues: Iterable[str]) -> None:
        """Keep them."""
        self.queues |= set(queues)

    def after(self, session: ClientSession) -> HeldBack:
        """Return this: the transaction is the same."""
        return self
