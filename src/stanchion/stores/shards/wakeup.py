"""Wake-up by several shards: one thread for each of them passes its signs on to the listeners of this process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable

from stanchion.core.backoff import Backoff
from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.protocol import Listener
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.shard import Shard
from stanchion.stores.wakeup.listeners import READY_SECONDS, EventListener, Listeners
from stanchion.stores.wakeup.signs import NO_SIGNS, Signs

log = logging.getLogger("stanchion.shards")

_LOOK_SECONDS = 1.0
"""Seconds after which a relay looks whether there are still listeners."""


class ShardSignals:
    """The listeners of this process, and a relay for each shard."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.listeners = Listeners(connected=self._connected)
        self._relays: dict[str, Relay] = {}

    def listen(
        self, queues: Iterable[str], finished: Iterable[str] | None, *, interchangeable: bool = False
    ) -> EventListener:
        """Return a listener that signs of the shards of these queues wake."""
        listener = self.listeners.listen(queues, finished, interchangeable=interchangeable)
        relays = self._of(_queues_of(listener))
        for relay in relays:
            relay.start()
        deadline = time.monotonic() + READY_SECONDS
        for relay in relays:
            relay.wait_for(self.wanted(relay.shard), deadline)
        return listener

    def wanted(self, shard: Shard) -> Signs:
        """Return the queues of a shard whose work, and the queues whose ends of jobs, listeners wait for."""
        wanted = self.listeners.wanted()
        return Signs(
            frozenset(queue for queue in wanted.queues or () if self._fleet.of(queue) is shard),
            frozenset(queue for queue in wanted.finished or () if self._fleet.of(queue) is shard),
        )

    def follow(self, queues: Iterable[str]) -> None:
        """Listen to other shards, as queues have changed theirs, and let listeners look there."""
        wanted = self.listeners.wanted()
        changed = frozenset(queues) & (wanted.queues or frozenset())
        for relay in self._of(changed | (wanted.finished or frozenset())):
            relay.start()
        if changed:
            self.listeners.announce(changed)

    def close(self) -> None:
        """End all waits."""
        self.listeners.close()
        for relay in list(self._relays.values()):
            relay.start(only_wake=True)

    def _of(self, queues: Iterable[str]) -> list[Relay]:
        shards = {shard.name: shard for shard in map(self._fleet.of, queues)}
        return [self._relays.setdefault(name, Relay(shards[name], self)) for name in sorted(shards)]

    def _connected(self, listener: EventListener) -> bool:
        return all(relay.connected for relay in self._of(_queues_of(listener)))


def _queues_of(listener: EventListener) -> frozenset[str]:
    return listener.queues | (listener.finished or frozenset())


class Relay:
    """Passes the signs of one shard on, while there are listeners for its queues."""

    def __init__(self, shard: Shard, signals: ShardSignals) -> None:
        self.shard, self._signals = shard, signals
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without a thread."""
        self._ready = threading.Condition()
        self._thread: threading.Thread | None = None
        self._listener: Listener | None = None
        self._covers = NO_SIGNS
        self._missed = False

    @property
    def connected(self) -> bool:
        """True while signs of other processes arrive from the shard."""
        listener = self._listener
        return listener is not None and listener.connected

    def start(self, *, only_wake: bool = False) -> None:
        """Let the thread check immediately what listeners want; start it if there is none."""
        with self._ready:
            if self._thread is None and not only_wake:
                self._thread = threading.Thread(target=self._run, name="stanchion-shard-relay", daemon=True)
                self._thread.start()
            if self._listener is not None:
                self._listener.wake()

    def wait_for(self, wanted: Signs, deadline: float) -> None:
        """Wait until the shard is listened to for these queues; after the deadline, polling must do."""
        with self._ready:
            self._ready.wait_for(lambda: self._covers.covers(wanted), max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        backoff = Backoff()
        while self._go_on():
            try:
                self._relay()
                backoff.succeeded()
            except Exception as error:
                log.debug("not listening to shard %s: %s", self.shard.name, error)
                self._missed = True
                self._replace(None, NO_SIGNS)
                time.sleep(backoff.failed())

    def _go_on(self) -> bool:
        """Return False, and end the thread, if there are no listeners any more."""
        with self._ready:
            if self._signals.wanted(self.shard) != NO_SIGNS:
                return True
            # A new listener starts another thread from here on, which must not share this one's listener.
            self._thread, old, covers = None, self._listener, self._covers
            self._listener, self._covers = None, NO_SIGNS
        self._let_go(old, covers)
        return False

    def _relay(self) -> None:
        """Listen for the wanted queues, wait once, and pass on the signals."""
        wanted = self._signals.wanted(self.shard)
        listener = self._listener
        if listener is None or not self._covers.covers(wanted):
            store = self.shard.store
            opened = store.listen(sorted(wanted.queues or ()), finished=sorted(wanted.finished or ()) or None)
            self._replace(opened, wanted)
            if self._missed:
                self._missed = False
                self._signals.listeners.wake(wanted.queues or frozenset(), None if wanted.finished else ())
            listener = opened
        listener.wait(_LOOK_SECONDS)
        self._pass_on(listener, self._covers)

    def _pass_on(self, listener: Listener, covers: Signs) -> None:
        signs = listener.signs()
        if signs != NO_SIGNS:
            queues = covers.queues if signs.queues is None else signs.queues
            self._signals.listeners.wake(queues or frozenset(), signs.finished)

    def _replace(self, listener: Listener | None, covers: Signs) -> None:
        with self._ready:
            old, before = self._listener, self._covers
            self._listener, self._covers = listener, covers
            self._ready.notify_all()
        self._let_go(old, before)

    def _let_go(self, listener: Listener | None, covers: Signs) -> None:
        """Pass on the last signs of a listener, and close it."""
        if listener is not None:
            try:
                self._pass_on(listener, covers)
                listener.close()
            except Exception:
                log.debug("closing a listener failed", exc_info=True)
