"""The listeners of one process, woken by one of its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from weakref import WeakSet

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.wakeup.signs import ANY, NO_SIGNS, Signs

READY_SECONDS = 1.0
"""Seconds that a call waits for the thread that wakes its listener; after that, polling must do."""


class EventListener:
    """Waits on an event. A sign stays until a wait consumes it, so that none is lost between two waits."""

    def __init__(
        self, owner: Listeners, queues: frozenset[str], finished: frozenset[str] | None, *, interchangeable: bool
    ) -> None:
        self.queues, self.finished, self.interchangeable = queues, finished, interchangeable
        self.waits_since: int | None = None
        """Start of the current wait, as a sequence number; None if not waiting, or already woken."""
        self.skips: int | None = None
        """A thread of this process whose announcements give it no sign; only if it is not interchangeable."""
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
            # Cleared before the caller checks for work: a later signal ends its next wait.
            self._event.clear()
            return woken

    def signs(self) -> Signs:
        """Return the reasons of the signs since the last call."""
        with self._owner.lock:
            signs, self._signs = self._signs, NO_SIGNS
            return signs

    @property
    def connected(self) -> bool:
        """True while signs of other processes arrive, as far as is known."""
        return self._owner.connected(self)

    @property
    def fed(self) -> bool:
        """True while streams deliver the jobs of all its queues to this process with a signal, so no poll is needed."""
        return self._owner.fed(self.queues)

    def came(self) -> Mapping[str, Collection[int]]:
        """For each queue, return the ranks of streamed jobs not yet claimed."""
        return self._owner.came(self.queues)

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self.waits_since = None
        self._event.set()

    def sign(self, signs: Signs) -> None:
        """End the current wait, or the next one, and add its reasons; the lock must be held."""
        self._signs = self._signs.and_also(signs)
        self.wake()

    def pass_on(self) -> None:
        """Wake another listener, because there may be more work than this one's owner takes."""
        self._owner.pass_on(self)

    def close(self) -> None:
        """Stop listening."""
        self._owner.forget(self)


class Listeners:
    """The listeners of this process, and what each waits for. Unreferenced listeners are forgotten."""

    def __init__(self, *, connected: Callable[[EventListener], bool] = lambda _listener: True) -> None:
        self.connected = connected
        self.fed: Callable[[Collection[str]], bool] = lambda _queues: False
        self.came: Callable[[Collection[str]], Mapping[str, Collection[int]]] = lambda _queues: {}
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without listeners; also after a fork."""
        self.lock = threading.Lock()
        self._listeners: WeakSet[EventListener] = WeakSet()
        self._moments = count()

    def __len__(self) -> int:
        return len(self._listeners)

    def listen(
        self, queues: Iterable[str], finished: Iterable[str] | None = None, *, interchangeable: bool = False
    ) -> EventListener:
        """Return a new listener for work in these queues and, with `finished`, for ends of jobs.

        A sign wakes one of the interchangeable listeners that wait for the same queue.
        """
        ends = frozenset(finished or ()) or None
        listener = EventListener(self, frozenset(queues), ends, interchangeable=interchangeable)
        with self.lock:
            self._listeners.add(listener)
        return listener

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake the listeners for work in these queues, and for ends of these jobs."""
        self.wake(frozenset(queues), finished)

    def wake(self, queues: Collection[str] | None = None, finished: Collection[str] | None = ()) -> None:
        """Wake the listeners for work in these queues, and for ends of these jobs; None: any."""
        signs = Signs(None if queues is None else frozenset(queues), None if finished is None else frozenset(finished))
        with self.lock:
            if not self._listeners:
                return
            self._wake_one_of([one for one in self._listeners if one.interchangeable], signs.queues)
            self._wake_others(signs)

    def wake_unless_asleep(self) -> frozenset[str]:
        """Wake listeners for anything, but let interchangeable ones sleep if one waits for each of their queues.

        Return these queues; none if all were woken. Reading the store may show that there is nothing for them.
        """
        with self.lock:
            alike = [one for one in self._listeners if one.interchangeable]
            queues = frozenset(queue for one in alike for queue in one.queues)
            asleep = frozenset(queue for one in alike if one.waits_since is not None for queue in one.queues)
            self._wake_others(ANY)
            if queues <= asleep:
                return queues
            self._wake_one_of(alike, None)
            return frozenset()

    def wake_interchangeable(self) -> None:
        """Wake an interchangeable listener for each of their queues."""
        with self.lock:
            self._wake_one_of([one for one in self._listeners if one.interchangeable], None)

    def want(self, *, ends: bool) -> bool:
        """Return True if a listener waits for ends of jobs, or, with `ends` False, for work."""
        return bool(self.wanted().finished if ends else self.wanted().queues)

    def wanted(self) -> Signs:
        """Return the queues whose work, and the queues whose ends of jobs, listeners wait for."""
        with self.lock:
            queues = frozenset(queue for one in self._listeners for queue in one.queues)
            return Signs(queues, frozenset(queue for one in self._listeners for queue in one.finished or ()))

    def waiting(self, listener: EventListener) -> None:
        """Record that a listener starts to wait, unless a sign is already there."""
        with self.lock:
            if not listener._event.is_set():
                listener.waits_since = next(self._moments)

    def pass_on(self, listener: EventListener) -> None:
        """Wake another listener that waits for the same queues, if there is one."""
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
        """Stop waking this listener."""
        with self.lock:
            self._listeners.discard(listener)

    def _wake_others(self, signs: Signs) -> None:
        """Wake these listeners; the lock must be held."""
        me = threading.get_ident()
        for listener in list(self._listeners):
            if not listener.interchangeable and listener.skips != me:
                _wake(listener, signs)

    def _wake_one_of(self, listeners: list[EventListener], queues: frozenset[str] | None) -> None:
        """Wake, for each queue, the listener that has waited longest.

        If none waits for a queue, all its listeners get the sign: each may be between "found nothing" and "wait".
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
    relevant = Signs(
        signs.queues if signs.queues is None else signs.queues & listener.queues,
        frozenset() if listener.finished is None else signs.finished,
    )
    if relevant.queues is None and not listener.queues:
        relevant = relevant._replace(queues=frozenset())
    if relevant != NO_SIGNS:
        listener.sign(relevant)
