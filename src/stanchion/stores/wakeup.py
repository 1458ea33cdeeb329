"""Who waits for work in this process, and is woken by a thread of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from weakref import WeakKeyDictionary

from stanchion.stores.forks import begins_anew

READY_SECONDS = 1.0
"""So long a call waits for the thread that wakes its listener; where that comes later, polling must do."""


class EventListener:
    """Waits on an event. A sign stays until a wait takes it, so that none is lost between two waits."""

    def __init__(self, forget: Callable[[EventListener], None]) -> None:
        self._event = threading.Event()
        self._forget = forget

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return True when a sign ended the wait."""
        woken = self._event.wait(timeout)
        # Cleared before the caller looks for work: a sign given from here on ends its next wait.
        self._event.clear()
        return woken

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self._event.set()

    def close(self) -> None:
        """Stop listening."""
        self._forget(self)


class Listeners:
    """The listeners of this process, and the queues that each waits for. One that nobody keeps is forgotten."""

    def __init__(self) -> None:
        begins_anew(self)

    def begin(self) -> None:
        """Have no listener."""
        self._lock = threading.Lock()
        self._queues: WeakKeyDictionary[EventListener, frozenset[str]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._queues)

    def add(self, queues: Iterable[str]) -> EventListener:
        """Return a new listener for these queues."""
        listener = EventListener(self._forget)
        with self._lock:
            self._queues[listener] = frozenset(queues)
        return listener

    def wake(self, queues: Collection[str] | None = None) -> None:
        """Wake who waits for any of these queues; all for None."""
        with self._lock:
            for listener, wanted in list(self._queues.items()):
                if queues is None or not wanted.isdisjoint(queues):
                    listener.wake()

    def close(self) -> None:
        """End all waits, and forget all listeners."""
        self.wake()
        with self._lock:
            self._queues.clear()

    def _forget(self, listener: EventListener) -> None:
        with self._lock:
            self._queues.pop(listener, None)
