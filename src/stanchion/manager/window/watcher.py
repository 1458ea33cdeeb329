"""Watches for signs of work in queues, by a thread with a listener of the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import TypeVar

from stanchion.core.backoff import Backoff
from stanchion.stores.protocol import Listener, Store
from stanchion.stores.wakeup.listeners import EventListener

log = logging.getLogger("stanchion.manager")

T = TypeVar("T")

WAIT_SECONDS = 60.0


class Watcher:
    """Calls `signed`, from its own thread, with the queues that may have work; None: any."""

    def __init__(self, store: Store, signed: Callable[[Collection[str] | None], None]) -> None:
        self._store, self._signed = store, signed
        self._lock = threading.Lock()
        self._wanted: frozenset[str] = frozenset()
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def watch(self, queues: Collection[str]) -> None:
        """Watch these queues instead of those before."""
        with self._lock:
            self._wanted = frozenset(queues)
            listener = self._listener
            if self._thread is None and queues and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="stanchion-watcher", daemon=True)
                self._thread.start()
        if listener is not None:
            listener.wake()

    def unheard(self, call: Callable[[], T]) -> T:
        """Make a call whose jobs the windows record themselves: with most stores it sends no signal here."""
        listener = self._listener
        if not isinstance(listener, EventListener):
            return call()
        listener.skips = threading.get_ident()
        try:
            return call()
        finally:
            listener.skips = None

    def close(self, seconds: float = 5.0) -> None:
        """Stop watching."""
        self._closing.set()
        with self._lock:
            listener, thread = self._listener, self._thread
        if listener is not None:
            listener.wake()
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        backoff = Backoff()
        while not self._closing.is_set():
            try:
                self._listen()
                backoff.succeeded()
            except Exception as error:
                pause = backoff.failed()
                log.warning("listening failed, next try in %.1f s: %s: %s", pause, type(error).__name__, error)
                self._closing.wait(pause)

    def _listen(self) -> None:
        """Listen until other queues are wanted."""
        wanted = self._wanted
        listener = self._store.listen(wanted)
        with self._lock:
            self._listener = listener
        try:
            self._signed(None)  # jobs may have come before the listener was there
            while self._wanted == wanted and not self._closing.is_set():
                listener.wait(WAIT_SECONDS)
                if (queues := listener.signs().queues) is None or queues:
                    self._signed(queues)
        finally:
            with self._lock:
                self._listener = None
            listener.close()
