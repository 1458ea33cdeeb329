"""Signals between processes, for databases that can carry them.

A separate thread sends signals, outside the write; signals that accumulate meanwhile are sent as one. A lost
signal costs at most one poll interval. There are two kinds: work in queues, and ends of jobs. One thread per kind
receives them while there is a listener for it.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from enum import Enum

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.wakeup.listeners import READY_SECONDS, EventListener, Listeners

log = logging.getLogger("stanchion.wakeup")

_APART_SECONDS = 0.005
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_IDLE_SECONDS = 10.0

MOST_ENDS = 200
"""Ids in one signal; if more jobs have ended, the signal stands for any."""


class NoSignals(Exception):
    """The database can't carry signals; waiters poll."""


class Kind(Enum):
    """The subject of a signal."""

    WORK = "work"
    ENDS = "ends"


class Reception:
    """The thread that receives one kind of signals, started on first use."""

    def __init__(self, kind: Kind, listeners: Listeners, receive: Callable[[Reception], None]) -> None:
        self.kind, self._listeners, self._receive_one = kind, listeners, receive
        self._state = threading.Lock()
        self._thread: threading.Thread | None = None
        self._heard = threading.Event()
        self._pause = _FIRST_PAUSE
        self.connected = False
        """True while signals arrive, as far as is known."""

    def ready(self, *, connected: bool = True) -> None:
        """Declare that every signal from now on is received."""
        if self._heard.is_set():  # restarted: signals sent meanwhile were missed
            self._wake_all()
        self._heard.set()
        self.connected = connected
        self._pause = _FIRST_PAUSE

    def wanted(self) -> bool:
        """Return True if there are listeners; if not, the thread ends and the next listener starts another."""
        with self._state:
            if not self._listeners.want(ends=self.kind is Kind.ENDS):
                self._thread, self.connected = None, False
                return False
            return True

    def begin(self) -> None:
        """Start the thread unless it runs."""
        with self._state:
            if self._thread is None or not self._thread.is_alive():
                self._heard.clear()
                self._thread = started(self._receive, f"stanchion-listen-{self.kind.value}")

    def wait(self) -> None:
        """Wait until signals are received, at most READY_SECONDS; after that, polling must do."""
        self._heard.wait(READY_SECONDS)

    def _wake_all(self) -> None:
        if self.kind is Kind.WORK:
            self._listeners.wake()
        else:
            self._listeners.wake((), None)

    def _receive(self) -> None:
        while self.wanted():
            try:
                self._receive_one(self)
            except NoSignals as reason:
                log.info("no signals, as %s; waiters poll", reason)
                with self._state:
                    self._thread, self.connected = None, False
                self._heard.set()
                return
            except Exception as error:  # polling continues whatever it is, and so does the next try
                self.connected = False
                if not self.wanted():
                    return
                log.warning(
                    "not listening for wake-ups (%s); polling meanwhile, next try in %.1f s", error, self._pause
                )
                time.sleep(self._pause)
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class Broadcast(ABC):
    """One thread that sends, and one that receives each kind of signals."""

    def __init__(self) -> None:
        self.listeners = Listeners(connected=self._is_connected)
        reset_after_fork(self)

    def begin(self) -> None:
        """Start with nothing to send and no threads; also after a fork."""
        self._state = threading.Condition()
        self._unsent: set[str] = set()
        self._ended: set[str] | None = set()
        self._ending = False
        self._sending: threading.Thread | None = None
        self._work = Reception(Kind.WORK, self.listeners, self.receive)
        self._ends = Reception(Kind.ENDS, self.listeners, self.receive)

    # -- implemented by a database

    @abstractmethod
    def send(self, queues: set[str], finished: set[str] | None) -> None:
        """Send a signal for work in these queues, and one for ends of jobs; None: too many to name.

        After an error the signal is lost, and `hang_up` is called.
        """

    def hang_up(self) -> None:  # noqa: B027 - not every one has a separate connection
        """Close the connection that `send` uses."""

    @abstractmethod
    def receive(self, reception: Reception) -> None:
        """Call `ready`, then wake listeners as signals of a kind arrive, while they are `wanted`.

        After any error it is called again, except after NoSignals.
        """

    # -- implemented by a store

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake listeners for work in these queues, or for ends of these jobs: here immediately, elsewhere soon."""
        names = set(queues)
        if not names and not finished:
            return
        self.listeners.wake(names, finished)
        with self._state:
            self._unsent |= names
            if self._ended is not None:
                self._ended.update(finished)
                if len(self._ended) > MOST_ENDS:
                    self._ended = None
            self._send_soon()

    def listen(
        self, queues: Iterable[str], finished: Iterable[str] | None = None, *, interchangeable: bool = False
    ) -> EventListener:
        """Return a listener for signals of these queues, and with `finished` for ends of jobs."""
        listener = self.listeners.listen(queues, finished, interchangeable=interchangeable)
        receptions = self._receptions(listener)
        for reception in receptions:
            reception.begin()
        # A push from here on gives a sign. If receiving does not start soon, polling must do.
        for reception in receptions:
            reception.wait()
        return listener

    def close(self) -> None:
        """End all waits, and send unsent signals; the threads end by themselves."""
        self.listeners.close()
        with self._state:
            self._ending = True
            self._state.notify_all()
            sending = self._sending
        if sending is not None:
            sending.join(READY_SECONDS)

    def _receptions(self, listener: EventListener) -> list[Reception]:
        return [self._work] * bool(listener.queues) + [self._ends] * (listener.finished is not None)

    def _is_connected(self, listener: EventListener) -> bool:
        return all(reception.connected for reception in self._receptions(listener))

    def _send_soon(self) -> None:
        """Start or wake the thread that sends; the lock must be held."""
        self._ending = False
        if self._sending is None or not self._sending.is_alive():
            self._sending = started(self._send, "stanchion-signal")
        self._state.notify_all()

    # -- the thread that sends

    def _send(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._has_unsent() or self._ending, _IDLE_SECONDS)
                if not self._has_unsent():
                    self._sending = None
                    break
                names, self._unsent = self._unsent, set()
                ended, self._ended = self._ended, set()
            try:
                self.send(names, ended)
            except Exception as error:  # polling makes up for lost signals
                log.debug("a signal for %s was not sent: %s", sorted(names), error)
                self.hang_up()
            time.sleep(_APART_SECONDS)
        self.hang_up()

    def _has_unsent(self) -> bool:
        return bool(self._unsent) or self._ended is None or bool(self._ended)


def started(work: Callable[[], None], name: str) -> threading.Thread:
    """Return a daemon thread that has been started."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
