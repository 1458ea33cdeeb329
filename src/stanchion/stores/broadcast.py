"""Signals between processes, for databases that can carry them.

A signal is sent beside the write, by a thread of its own, and signals that pile up meanwhile are sent as one. One
that gets lost costs at most one poll interval.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from stanchion.stores.forks import begins_anew
from stanchion.stores.wakeup import READY_SECONDS, EventListener, Listeners

log = logging.getLogger("stanchion.wakeup")

_APART_SECONDS = 0.005
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_IDLE_SECONDS = 60.0


class NoSignals(Exception):
    """The database can't carry signals: polling does without them."""


class Broadcast(ABC):
    """One thread that sends, one that listens, each made when first needed."""

    def __init__(self) -> None:
        self.listeners = Listeners()
        begins_anew(self)

    def begin(self) -> None:
        """Send to and listen for nobody."""
        self._state = threading.Condition()
        self._unsent: set[str] = set()
        self._ending = False
        self._sending: threading.Thread | None = None
        self._listening: threading.Thread | None = None
        self._heard = threading.Event()
        self._pause = _FIRST_PAUSE

    # -- what a database does

    @abstractmethod
    def send(self, queues: set[str]) -> None:
        """Send a signal for these queues. After an error it is lost, and `hang_up` comes next."""

    def hang_up(self) -> None:  # noqa: B027 - not every one has a connection of its own
        """Close what `send` uses."""

    @abstractmethod
    def receive(self) -> None:
        """Wake the listeners as signals come, while they are `wanted`, after having told `ready`.

        Any error ends it, and it is called again; NoSignals is the end.
        """

    def ready(self) -> None:
        """Say that from here on every signal is heard."""
        if self._heard.is_set():  # begun again: what was pushed meanwhile gave no sign
            self.listeners.wake()
        self._heard.set()
        self._pause = _FIRST_PAUSE

    def wanted(self) -> bool:
        """Tell whether anybody listens; if not, the thread ends and the next listener starts another."""
        with self._state:
            if not self.listeners:
                self._listening = None
                return False
            return True

    # -- what a store does

    def announce(self, queues: Iterable[str]) -> None:
        """Wake the listeners of these queues: here at once, elsewhere by a signal sent soon."""
        names = set(queues)
        if not names:
            return
        self.listeners.wake(names)
        with self._state:
            self._unsent |= names
            self._ending = False
            if self._sending is None or not self._sending.is_alive():
                self._sending = _started(self._send, "stanchion-signal")
            self._state.notify_all()

    def listen(self, queues: Iterable[str]) -> EventListener:
        """Return a listener that signals for these queues wake."""
        with self._state:
            listener = self.listeners.add(queues)
            if self._listening is None or not self._listening.is_alive():
                self._heard.clear()
                self._listening = _started(self._receive, "stanchion-listen")
        # What is pushed from here on gives a sign; where that can't be had soon, polling must do.
        self._heard.wait(READY_SECONDS)
        return listener

    def close(self) -> None:
        """End all waits, and send what is unsent; the threads end by themselves."""
        self.listeners.close()
        with self._state:
            self._ending = True
            self._state.notify_all()
            sending = self._sending
        if sending is not None:
            sending.join(READY_SECONDS)

    # -- the threads

    def _send(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._unsent or self._ending, _IDLE_SECONDS)
                if not self._unsent:
                    self._sending = None
                    break
                names, self._unsent = self._unsent, set()
            try:
                self.send(names)
            except Exception as error:  # lost signals are what polling is for
                log.debug("the signal for %s was not sent: %s", sorted(names), error)
                self.hang_up()
            time.sleep(_APART_SECONDS)
        self.hang_up()

    def _receive(self) -> None:
        while self.wanted():
            try:
                self.receive()
            except NoSignals as reason:
                log.info("%s: polling does without signals", reason)
                with self._state:
                    self._listening = None
                self._heard.set()
                return
            except Exception as error:  # whatever it is, polling goes on and so does the next try
                if not self.wanted():
                    return
                log.warning(
                    "not listening for wake-ups (%s); polling meanwhile, next try in %.1f s", error, self._pause
                )
                time.sleep(self._pause)
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def _started(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
