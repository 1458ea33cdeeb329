"""The signs of the store, passed on to all callers that listen: one listener and one thread for any number of them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from stanchion.core.backoff import Backoff
from stanchion.stores.protocol import Listener, Store
from stanchion.stores.wakeup.signs import ANY, NO_SIGNS, Signs

log = logging.getLogger("stanchion.manager")

T = TypeVar("T")

MOST_ENDS = 1_000
"""Ids of ended jobs that one caller may have unread; more stand for any."""

_TICK = 1.0
_SPARE = 100
"""Maximum queues without callers, in addition to as many as have some, before the store's listener is renewed."""


class Subscriber:
    """One listening caller: the events since its last message. Used in the event loop only."""

    def __init__(self, queues: frozenset[str], finished: frozenset[str]) -> None:
        self.wanted = Signs(queues, finished)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the store is listened to for it; every later push gives a sign."""
        self._signs = NO_SIGNS
        self._woken = asyncio.Event()
        self._ended = False

    def add(self, signs: Signs) -> None:
        """Add reasons for its next message."""
        together = self._signs.and_also(signs)
        if together.finished is not None and len(together.finished) > MOST_ENDS:
            together = together._replace(finished=None)
        self._signs = together
        self._woken.set()

    def end(self) -> None:
        """End its wait, as the manager stops."""
        self._ended = True
        self._woken.set()

    async def next(self) -> Signs | None:
        """Wait for signs; return all since the last call, or None once the manager stops."""
        await self._woken.wait()
        if self._ended:
            return None
        self._woken.clear()
        signs, self._signs = self._signs, NO_SIGNS
        return signs


class Hub:
    """Listens to the store while there are subscribers, for all their queues together.

    subscribe ──► the thread listens for the new queues too, then leaves the old listener ──► ready ──► signs
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._subscribers: set[Subscriber] = set()
        self._by_queue: defaultdict[str, set[Subscriber]] = defaultdict(set)
        self._by_ends: defaultdict[str, set[Subscriber]] = defaultdict(set)
        # Shared with the thread:
        self._lock = threading.Lock()
        self._wanted = NO_SIGNS
        self._thread: threading.Thread | None = None
        self._listener: Listener | None = None
        self.connected = True
        """False while the store has no signs from other processes."""

    def __len__(self) -> int:
        return len(self._subscribers)

    # -- in the event loop

    async def subscribe(self, queues: Iterable[str], finished: Iterable[str]) -> Subscriber:
        """Return a subscriber, once every later push in its queues gives it a sign. Raises StoreUnavailable."""
        one = Subscriber(frozenset(queues), frozenset(finished))
        self._subscribers.add(one)
        for index, names in self._indexes(one):
            for name in names:
                index[name].add(one)
        self._want()
        try:
            await one.ready
        except BaseException:
            self.unsubscribe(one)
            raise
        return one

    def unsubscribe(self, one: Subscriber) -> None:
        """Forget a subscriber."""
        self._subscribers.discard(one)
        for index, names in self._indexes(one):
            for name in names:
                index[name].discard(one)
                if not index[name]:
                    del index[name]
        self._want()

    def end(self) -> None:
        """End the waits of all subscribers."""
        for one in self._subscribers:
            one.end()

    def close(self) -> None:
        """Leave the store's listener; the thread ends by itself."""
        self._subscribers.clear()
        self._by_queue.clear()
        self._by_ends.clear()
        self._want()

    def _indexes(self, one: Subscriber) -> Iterator[tuple[defaultdict[str, set[Subscriber]], frozenset[str]]]:
        yield self._by_queue, one.wanted.queues or frozenset()
        yield self._by_ends, one.wanted.finished or frozenset()

    def _want(self) -> None:
        with self._lock:
            self._wanted = Signs(frozenset(self._by_queue), frozenset(self._by_ends))
            if self._wanted != NO_SIGNS and self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="stanchion-manager-listen", daemon=True)
                self._thread.start()
            elif self._listener is not None:
                self._listener.wake()

    def _listening(self, covered: Signs) -> None:
        for one in self._subscribers:
            if not one.ready.done() and covered.covers(one.wanted):
                one.ready.set_result(None)

    def _failed(self, error: Exception) -> None:
        for one in self._subscribers:
            if not one.ready.done():
                one.ready.set_exception(error)

    def _deliver(self, signs: Signs) -> None:
        """Pass signs on; without any, all subscribers send a message, which says whether the store is connected."""
        if signs == NO_SIGNS:
            for one in self._subscribers:
                one.add(NO_SIGNS)
        if signs.queues is None:
            for queue, subscribers in self._by_queue.items():
                for one in subscribers:
                    one.add(Signs(frozenset({queue})))
        for queue in signs.queues or ():
            for one in self._by_queue.get(queue, ()):
                one.add(Signs(frozenset({queue})))
        if signs.finished is None or signs.finished:
            for one in {one for subscribers in self._by_ends.values() for one in subscribers}:
                one.add(Signs(frozenset(), signs.finished))

    # -- in the thread

    def _serve(self) -> None:
        covered, backoff = NO_SIGNS, Backoff()
        while (wanted := self._next_wanted()) is not None:
            try:
                covered = self._covering(wanted, covered)
                self._call(self._listening, covered)
                self._pass_on()
            except Exception as error:  # whatever it is, callers poll and listening continues
                log.warning("not listening to the store: %s", error)
                self.connected = False
                self._call(self._deliver, NO_SIGNS)
                self._call(self._failed, error)
                covered = self._leave()
                time.sleep(backoff.failed())
            else:
                backoff.succeeded()

    def _pass_on(self) -> None:
        listener = self._listener
        assert listener is not None  # noqa: S101 - the thread's own
        if (connected := listener.connected) != self.connected:
            self.connected = connected
            # What happened while there were no signs gave none.
            self._call(self._deliver, ANY if connected else NO_SIGNS)
        if listener.wait(_TICK) and (signs := listener.signs()) != NO_SIGNS:
            self._call(self._deliver, signs)

    def _next_wanted(self) -> Signs | None:
        """Return what to listen for; None if nothing, and the thread must end."""
        with self._lock:
            if self._wanted != NO_SIGNS:
                return self._wanted
            self._thread = None  # the next subscriber starts another, with a new listener
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        return None

    def _covering(self, wanted: Signs, covered: Signs) -> Signs:
        """Listen for all wanted queues, unless they are covered already; return the covered ones."""
        most = 2 * (len(wanted.queues or ()) + len(wanted.finished or ())) + _SPARE
        few = len(covered.queues or ()) + len(covered.finished or ()) <= most
        if self._listener is not None and few and covered.covers(wanted):
            return covered
        before = self._listener
        listener = self._store.listen(wanted.queues or (), finished=wanted.finished or None)
        with self._lock:
            self._listener = listener
            if self._wanted is not wanted:  # changed since: `_want` has woken the listener of before
                listener.wake()
        if before is not None:  # it heard all until the new one did
            if (signs := before.signs()) != NO_SIGNS:
                self._call(self._deliver, signs)
            before.close()
        return wanted

    def _leave(self) -> Signs:
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        return NO_SIGNS

    def _call(self, what: Callable[[T], object], given: T) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what, given)
