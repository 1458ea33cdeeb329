"""Wake-up across the processes of a PostgreSQL database by LISTEN/NOTIFY.

A NOTIFY inside a writing transaction takes a lock over the whole server at its commit. So the signal goes
out on a connection of its own, after the commit, and signals that pile up meanwhile are sent as one. A
signal that gets lost costs at most one poll interval.
"""

from __future__ import annotations

import logging
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import String, bindparam, func

from stanchion.stores.forks import begins_anew
from stanchion.stores.wakeup import EventListener

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("stanchion.postgres")

CHANNEL = "stanchion"
NOTIFY = sqlalchemy.select(func.pg_notify(CHANNEL, bindparam("queue", type_=String)))
_APART_SECONDS = 0.005
_LONGEST_PAUSE = 5.0
_READY_SECONDS = 1.0
_IDLE_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_TUPLES_OK = 2  # ExecStatus.TUPLES_OK, without the import for those who have no psycopg


class Signals:
    """One thread that sends, one that listens, each made when first needed."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        begins_anew(self)

    def begin(self) -> None:
        """Send to and listen for nobody."""
        self._state = threading.Condition()
        self._unsent: set[str] = set()
        self._ending = False
        self._sending: threading.Thread | None = None
        self._listening: threading.Thread | None = None
        self._heard = threading.Event()
        self._listeners: weakref.WeakKeyDictionary[EventListener, frozenset[str]] = weakref.WeakKeyDictionary()

    def announce(self, queues: Iterable[str]) -> None:
        """Wake the listeners of these queues: here at once, elsewhere by a signal sent soon."""
        names = set(queues)
        with self._state:
            self._wake(names)
            self._unsent |= names
            self._ending = False
            if self._sending is None or not self._sending.is_alive():
                self._sending = self._start(self._send, "stanchion-notify")
            self._state.notify_all()

    def announce_after_commit(self, session: Any, queues: Iterable[str]) -> None:
        """Announce once the session's outermost transaction is committed; never if it is rolled back."""
        from sqlalchemy import event

        waiting = session.info.setdefault("stanchion_announce", set())
        waiting.update(queues)
        if session.info.get("stanchion_hooked"):
            return
        session.info["stanchion_hooked"] = True

        def committed(session: Any) -> None:
            names = session.info.pop("stanchion_announce", None)
            if names:
                self.announce(names)

        def rolled_back(session: Any) -> None:
            session.info.pop("stanchion_announce", None)

        event.listen(session, "after_commit", committed)
        event.listen(session, "after_rollback", rolled_back)

    def listen(self, queues: Iterable[str]) -> EventListener:
        """Return a listener that signals for these queues wake."""
        listener = EventListener(self._forget)
        with self._state:
            self._listeners[listener] = frozenset(queues)
            if self._listening is None or not self._listening.is_alive():
                self._heard.clear()
                self._listening = self._start(self._receive, "stanchion-listen")
        # What is pushed from here on gives a sign; where that can't be had soon, polling must do.
        self._heard.wait(_READY_SECONDS)
        return listener

    def close(self) -> None:
        """End all waits; the threads end by themselves."""
        with self._state:
            self._wake(None)
            self._listeners.clear()
            self._ending = True
            self._state.notify_all()

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
        connection: psycopg.Connection[Any] | None = None
        while True:
            with self._state:
                self._state.wait_for(lambda: self._unsent or self._ending, _IDLE_SECONDS)
                if not self._unsent:
                    self._sending = None
                    break
                names, self._unsent = self._unsent, set()
            try:
                connection = connection or self._connect()
                for name in names:
                    _notify(connection, name)
            except Exception as error:  # lost signals are what polling is for
                log.debug("the signal for %s was not sent: %s", sorted(names), error)
                _close(connection)
                connection = None
            time.sleep(_APART_SECONDS)
        _close(connection)

    def _receive(self) -> None:
        pause = 0.1
        while self._wanted():
            connection: psycopg.Connection[Any] | None = None
            try:
                connection = self._connect()
                connection.execute(f"LISTEN {CHANNEL}")
                if self._heard.is_set():  # connected again: what was pushed meanwhile gave no sign
                    with self._state:
                        self._wake(None)
                self._heard.set()
                pause = 0.1
                while self._wanted():
                    if queues := _signalled(connection, _LOOK_SECONDS):
                        with self._state:
                            self._wake(queues)
            except Exception as error:  # whatever it is, polling goes on and so does the next try
                log.warning("not listening for wake-ups (%s); polling meanwhile, next try in %.1f s", error, pause)
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            finally:
                _close(connection)

    def _wanted(self) -> bool:
        with self._state:
            if not self._listeners:
                self._listening = None
                return False
            return True


# A signal is on the way from an enqueue to the start of its job, so these two go to the C library directly:
# psycopg's own calls take twice as long.


def _notify(connection: psycopg.Connection[Any], queue: str) -> None:
    result = connection.pgconn.exec_params(b"SELECT pg_notify($1, $2)", [CHANNEL.encode(), queue.encode()])
    if result.status != _TUPLES_OK:
        raise ConnectionError(result.error_message.decode(errors="replace"))


def _signalled(connection: psycopg.Connection[Any], seconds: float) -> set[str]:
    """Return the queues that signals have come for, waiting for the first of them."""
    session = connection.pgconn
    waiting = select.poll()
    waiting.register(session.socket, select.POLLIN)
    waiting.poll(seconds * 1000)
    session.consume_input()
    return {signal.extra.decode() for signal in iter(session.notifies, None)}


def _close(connection: psycopg.Connection[Any] | None) -> None:
    if connection is not None:
        with suppress(Exception):
            connection.close()
