"""The one listener of an app in this process, and who looks at the store when."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from stanchion.core.backoff import Backoff
from stanchion.core.forks import reset_after_fork
from stanchion.core.threads import DaemonPool
from stanchion.stores.protocol import Listener
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.wakeup.signs import NO_SIGNS, Signs
from stanchion.waits.claims import ClaimLook, Wish, put_back
from stanchion.waits.ends import FlowLook, JobLook, SeenJob
from stanchion.waits.look import Host, Look
from stanchion.waits.waiter import Waiter

log = logging.getLogger("stanchion")

LINGER = 5.0
"""Seconds that the listener is kept after the last waiter: the next one may come soon."""

_LOOKS_AT_ONCE = 4
_LONGEST_NAP = 60.0


class Waits:
    """All who wait for jobs or results through one app in this process.

    One thread, the keeper, listens to the store for all of them, and starts each look when it is due or a sign came;
    looks run in threads of their own, one at a time of each kind, so that a slow one holds up no other. The keeper
    ends some seconds after the last waiter. After a fork the child begins without waiters.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._pool = DaemonPool("stanchion-look", _LOOKS_AT_ONCE)
        reset_after_fork(self)

    def begin(self) -> None:
        """Have no waiter."""
        self.lock = threading.Lock()
        self._looks: dict[Hashable, Look] = {}
        self._keeper: threading.Thread | None = None
        self._nudge = threading.Event()
        self._listener: Listener | None = None
        self._listened = NO_SIGNS
        self._connecting = False
        self._opening = 0
        """Counts the calls of `close`: what was begun before one is of no use after it."""
        self._connect_at = 0.0
        self._backoff = Backoff()

    # -- who waits

    def for_job(self, job_id: str, deadline: float, loop: asyncio.AbstractEventLoop | None = None) -> Waiter[SeenJob]:
        """Wait until a job is final, or the time is over: it is given as it is then. JobNotFound for none."""
        return self._of_key("jobs", JobLook, job_id, deadline, loop)

    def for_flow(
        self, root: str, deadline: float, loop: asyncio.AbstractEventLoop | None = None
    ) -> Waiter[list[FlowNode]]:
        """Wait until a flow has ended, or the time is over: its nodes are given as they are then."""
        return self._of_key("flows", FlowLook, root, deadline, loop)

    def for_work(
        self,
        claim: Claim,
        deadline: float,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        pops: bool = False,
        unanswered: Claim | None = None,
    ) -> Waiter[list[JobRow]]:
        """Wait for due jobs, or for none once the time is over; `unanswered`: a claim that may have taken some."""
        key = ("work", claim.queue, claim.lanes, claim.lease, pops)
        waiter: Waiter[list[JobRow]] = Waiter(deadline, loop, returned=lambda rows: self.put_back(rows, pops=pops))
        with self.lock:
            look = self._look(key, lambda: ClaimLook(self, claim, pops=pops))
            look.add(Wish(waiter, claim.limit, unanswered))
            if look.due <= time.monotonic():
                self._start(look)
        self._wake_keeper()
        return waiter

    def _of_key(
        self, kind: str, make: Callable[[Waits], Any], key: str, deadline: float, loop: asyncio.AbstractEventLoop | None
    ) -> Waiter[Any]:
        def left() -> None:
            with self.lock:
                look.forget(key)

        waiter: Waiter[Any] = Waiter(deadline, loop, left=left)
        with self.lock:
            look = self._look(kind, lambda: make(self))
            look.add(key, waiter)
            self._start(look)
        return waiter

    def _look(self, key: Hashable, make: Callable[[], Look]) -> Any:
        """Return a look, made at first; the lock is held."""
        if key not in self._looks:
            self._looks[key] = make()
        if self._keeper is None or not self._keeper.is_alive():
            self._keeper = threading.Thread(target=self._keep, name="stanchion-waits", daemon=True)
            self._keeper.start()
        return self._looks[key]

    def put_back(self, rows: list[JobRow], *, pops: bool) -> None:
        """Give jobs back that were taken for one who waits no more; this call does not wait."""
        self._pool.submit(lambda: put_back(self.host, rows, pops=pops))

    @property
    def heard(self) -> Signs:
        """What signs of other processes are heard now: of work in these queues, of ends of jobs in those."""
        listener = self._listener
        return self._listened if listener is not None and listener.connected else NO_SIGNS

    def close(self) -> None:
        """End all waits with an error, and the threads."""
        with self.lock:
            looks, self._looks = list(self._looks.values()), {}
            listener, self._listener, self._listened = self._listener, None, NO_SIGNS
            self._opening += 1
        for look in looks:
            look.closed()
        self._nudge.set()
        _close(listener)
        self._pool.close()

    # -- the keeper

    def _keep(self) -> None:
        idle_from = math.inf
        while True:
            with self.lock:
                now = time.monotonic()
                for key in [key for key, look in self._looks.items() if not len(look) and not look.running]:
                    del self._looks[key]
                idle_from = min(idle_from, now) if not self._looks else math.inf
                if not self._looks and (self._listener is None or now - idle_from >= LINGER):
                    self._keeper = None
                    listener, self._listener, self._listened = self._listener, None, NO_SIGNS
                    break
                for look in self._looks.values():
                    if look.due <= now:
                        self._start(look)
                naps = [look.due - now for look in self._looks.values() if not look.running]
                nap = min([_LONGEST_NAP, *naps, LINGER if not self._looks else _LONGEST_NAP])
                nap = min(nap, self._connect(now))
                listener = self._listener
            self._wait(listener, max(0.0, nap))
        _close(listener)

    def _wait(self, listener: Listener | None, seconds: float) -> None:
        """Wait for signs, or until something else is to be seen to, and tell the looks of signs."""
        if listener is None:
            self._nudge.wait(seconds)
            self._nudge.clear()
            return
        try:
            listener.wait(seconds)
            signs = listener.signs()
        except Exception as error:
            log.warning("not listening for wake-ups: %s", error)
            with self.lock:
                if self._listener is listener:
                    self._listener, self._listened = None, NO_SIGNS
                    self._connect_at = time.monotonic() + self._backoff.failed()
            _close(listener)
            return
        if signs != NO_SIGNS:
            with self.lock:
                for look in self._looks.values():
                    look.signed(signs)

    def _wake_keeper(self) -> None:
        self._nudge.set()
        listener = self._listener
        if listener is not None:
            with suppress(Exception):
                listener.wake()

    def _start(self, look: Look) -> None:
        """Run a look in a thread of the pool, unless it runs; the lock is held."""
        if not look.running:
            look.running = True
            self._pool.submit(lambda: self._run(look))

    def _run(self, look: Look) -> None:
        while True:
            look.run()
            with self.lock:
                if not len(look) or look.due > time.monotonic():
                    look.running = False
                    break
        self._wake_keeper()

    # -- the listener

    def _connect(self, now: float) -> float:
        """Listen, in another thread, to all that the looks need; return the seconds until that is to be seen to again.

        The lock is held. What was listened to once is kept until the listener is closed: it may be needed again.
        """
        wanted = NO_SIGNS
        for look in self._looks.values():
            wanted = wanted.and_also(look.listens_to())
        if self._connecting or _within(wanted, self._listened):
            return _LONGEST_NAP
        if now < self._connect_at:
            return self._connect_at - now
        self._connecting = True
        everything = self._listened.and_also(wanted)
        opening = self._opening
        self._pool.submit(lambda: self._listen(everything, opening))
        return _LONGEST_NAP

    def _listen(self, wanted: Signs, opening: int) -> None:
        new: Listener | None = None
        try:
            new = self.host.store.listen(sorted(wanted.queues or ()), finished=sorted(wanted.finished or ()))
            self._backoff.succeeded()
        except Exception as error:
            log.debug("not listening for wake-ups: %s: %s", type(error).__name__, error)
        with self.lock:
            self._connecting = False
            if new is None:
                self._connect_at = time.monotonic() + self._backoff.failed()
            if new is None or self._keeper is None or opening != self._opening:
                old = new
            else:
                old, self._listener, self._listened = self._listener, new, wanted
                for look in self._looks.values():
                    look.heard()
        self._nudge.set()
        _close(old)


def _within(wanted: Signs, listened: Signs) -> bool:
    queues, ends = listened.queues or frozenset(), listened.finished or frozenset()
    return (wanted.queues or frozenset()) <= queues and (wanted.finished or frozenset()) <= ends


def _close(listener: Listener | None) -> None:
    if listener is not None:
        with suppress(Exception):
            listener.wake()
            listener.close()
