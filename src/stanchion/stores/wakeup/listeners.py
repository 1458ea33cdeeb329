"""Who waits for work in this process, and is woken by a thread of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from itertools import count
from weakref import WeakSet

from stanchion.core.forks import reset_after_fork
from stanchion.stores.wakeup.signs import NO_SIGNS, Signs

READY_SECONDS = 1.0
"""So long a call waits for the thread that wakes its listener; where that comes later, polling must do."""


class EventListener:
    """Waits on an event. A sign stays until a wait takes it, so that none is lost between two waits."""

    def __init__(
        self, owner: Listeners, queues: frozenset[str], finished: frozenset[str] | None, *, interchangeable: bool
    ) -> None:
        self.queues, self.finished, self.interchangeable = queues, finished, interchangeable
        self.waits_since: int | None = None
        """Orders those whose wait nothing has ended yet; None for one that is not waiting."""
        self._owner = owner
        self._event = threading.Event()
        self._signs = NO_SIGNS

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return True when a sign ended the wait."""
        self._owner.waiting(self)
        self._event.wait(timeout)
        with self._owner.lock:
            self.waits_since = None
            woken = self._event.is_set()
            # Cleared before the caller looks for work: a sign given from here on ends its next wait.
            self._event.clear()
            return woken

    def signs(self) -> Signs:
        """Return what the signs since the last call were for."""
        with self._owner.lock:
            signs, self._signs = self._signs, NO_SIGNS
            return signs

    @property
    def connected(self) -> bool:
        """True while signs of other processes arrive, as far as is known."""
        return self._owner.connected(self)

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self.waits_since = None
        self._event.set()

    def sign(self, signs: Signs) -> None:
        """End the current wait, or the next one, for a reason; the lock must be held."""
        self._signs = self._signs.and_also(signs)
        self.wake()

    def pass_on(self) -> None:
        """Say that there may be more work than this listener's owner takes: another one is woken."""
        self._owner.pass_on(self)

    def close(self) -> None:
        """Stop listening."""
        self._owner.forget(self)


class Listeners:
    """The listeners of this process, and what each waits for. One that nobody keeps is forgotten."""

    def __init__(self, *, connected: Callable[[EventListener], bool] = lambda _listener: True) -> None:
        self.connected = connected
        reset_after_fork(self)

    def begin(self) -> None:
        """Have no listener."""
        self.lock = threading.Lock()
        self._listeners: WeakSet[EventListener] = WeakSet()
        self._moments = count()

    def __len__(self) -> int:
        return len(self._listeners)

    def add(
        self, queues: Iterable[str], finished: Iterable[str] | None = None, *, interchangeable: bool = False
    ) -> EventListener:
        """Return a new listener for work in these queues; with `finished`, also for ends of jobs.

        Of interchangeable ones that wait for the same, a sign wakes one.
        """
        ends = frozenset(finished or ()) or None
        listener = EventListener(self, frozenset(queues), ends, interchangeable=interchangeable)
        with self.lock:
            self._listeners.add(listener)
        return listener

    def wake(self, queues: Collection[str] | None = None, finished: Collection[str] | None = ()) -> None:
        """Wake who waits for work in any of these queues, or for ends of jobs; None: any may be meant."""
        signs = Signs(None if queues is None else frozenset(queues), None if finished is None else frozenset(finished))
        with self.lock:
            listeners = list(self._listeners)
            if not listeners:
                return
            self._wake_one_of([one for one in listeners if one.interchangeable], signs.queues)
            for listener in listeners:
                if not listener.interchangeable:
                    _wake(listener, signs)

    def want(self, *, ends: bool) -> bool:
        """Tell whether anybody waits for ends of jobs, or else for work."""
        return bool(self.wanted().finished if ends else self.wanted().queues)

    def wanted(self) -> Signs:
        """Return the queues whose work is waited for, and those whose jobs' ends are."""
        with self.lock:
            queues = frozenset(queue for one in self._listeners for queue in one.queues)
            return Signs(queues, frozenset(queue for one in self._listeners for queue in one.finished or ()))

    def waiting(self, listener: EventListener) -> None:
        """Note that a listener begins to wait, unless a sign is there already."""
        with self.lock:
            if not listener._event.is_set():
                listener.waits_since = next(self._moments)

    def pass_on(self, listener: EventListener) -> None:
        """Wake another listener that waits for the same, if there is one."""
        with self.lock:
            others = [one for one in self._listeners if one.interchangeable and one is not listener]
            self._wake_one_of(others, listener.queues)

    def close(self) -> None:
        """End all waits, and forget all listeners."""
        with self.lock:
            for listener in list(self._listeners):
                listener.sign(Signs(None, None))
            self._listeners.clear()

    def forget(self, listener: EventListener) -> None:
        """Wake this one no more."""
        with self.lock:
            self._listeners.discard(listener)

    def _wake_one_of(self, listeners: list[EventListener], queues: frozenset[str] | None) -> None:
        """Wake, for each queue, the one that has waited longest.

        Where none waits for it, all get the sign: any may be between "found nothing" and "wait".
        """
        covered: set[str] = set()
        waiting = [one for one in listeners if one.waits_since is not None]
        for listener in sorted(waiting, key=lambda one: one.waits_since or 0) + listeners:
            wanted = listener.queues if queues is None else listener.queues & queues
            if wanted <= covered:
                continue
            if listener.waits_since is not None:
                covered |= wanted
            listener.sign(Signs(wanted))


def _wake(listener: EventListener, signs: Signs) -> None:
    heard = Signs(
        signs.queues if signs.queues is None else signs.queues & listener.queues,
        frozenset() if listener.finished is None else signs.finished,
    )
    if heard.queues is None and not listener.queues:
        heard = heard._replace(queues=frozenset())
    if heard != NO_SIGNS:
        listener.sign(heard)
