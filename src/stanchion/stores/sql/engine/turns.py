"""Turns of threads: at the connections of a pool, first come, first served, and at a write lock of the database."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import CannotJoin, StoreUnavailable

GROW_SECONDS = 5.0
"""Seconds after which one more connection is tried, once the server has refused some."""


class Turns:
    """Gives a turn to as many threads at a time as there are connections.

    A server may allow fewer than the pool does: the role or the database has a limit, or others hold the rest. After a
    refusal threads wait for the connections that are open, instead of asking the server again and again. One more is
    tried for each that opens, as after an outage, and from time to time.
    """

    def __init__(self, most: int, shown: str) -> None:
        """`most`: connections of the pool; `shown`: the store, for messages."""
        self._most, self._shown = most, shown
        self._limit, self._limited_at = most, 0.0
        self._why = ""
        self._used = 0
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    def take(self, seconds: float) -> None:
        """Begin a turn; raises StoreUnavailable if none is free within `seconds`."""
        with self._lock:
            if not self._waiting and self._used < self._allowed():
                self._used += 1
                return
            granted = threading.Event()
            self._waiting.append(granted)
        self._wait(granted, seconds)

    def _wait(self, granted: threading.Event, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        try:
            while not granted.is_set() and (left := deadline - time.monotonic()) > 0:
                granted.wait(min(left, GROW_SECONDS))
                with self._lock:
                    self._grant()  # the limit grows with time
        except BaseException:  # such as the time-out of a task
            self._withdraw(granted)
            raise
        if not granted.is_set():
            self._withdraw(granted, timed_out=True)

    def _withdraw(self, granted: threading.Event, *, timed_out: bool = False) -> None:
        with self._lock:
            if not granted.is_set():
                self._waiting.remove(granted)
            elif timed_out:
                return
            else:
                self._used -= 1
                self._grant()
            limit = self._allowed()
            why = self._why if limit < self._most else None
        if timed_out:
            raise StoreUnavailable(
                why
                or f"all {limit} connections to the store {self._shown} were in use all the time: use fewer threads or "
                f"shorter transactions, or allow more by pool_size in the URL"
            )

    @contextmanager
    def turn(self, seconds: float) -> Iterator[None]:
        """Have a turn in the block; raises StoreUnavailable if none is free within `seconds`."""
        self.take(seconds)
        try:
            yield
        finally:
            self.give()

    def give(self) -> None:
        """End a turn."""
        with self._lock:
            self._used -= 1
            self._grant()

    def opened(self) -> None:
        """Take note of a new connection."""
        with self._lock:
            self._limit = min(self._limit + 1, self._most)
            self._grant()

    def refused(self, why: str) -> bool:
        """End a turn, as the server has refused a connection to its holder: another one must be waited for.

        Returns False, without an end, if nobody else has a turn: no connection would become free.
        """
        with self._lock:
            others = self._used - 1
            if others < 1:
                return False
            self._limit, self._limited_at, self._why = others, time.monotonic(), why
            self._used = others
            return True

    def _grant(self) -> None:
        while self._waiting and self._used < self._allowed():
            self._used += 1
            self._waiting.popleft().set()

    def _allowed(self) -> int:
        if self._limit < self._most:
            grown = self._limit + int((time.monotonic() - self._limited_at) / GROW_SECONDS)
            return min(grown, self._most)
        return self._most


class AllButOne(Turns):
    """Turns at all connections but one, for transactions of callers.

    A call in such a transaction may need another connection, to read settings for example. If transactions held all of
    them, each would wait for the others.
    """

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns._most, turns._shown)
        self._turns = turns

    def _allowed(self) -> int:
        return max(1, self._turns._allowed() - 1)


class WriteLock:
    """The write lock among the threads of this process."""

    def __init__(self) -> None:
        reset_after_fork(self)

    def begin(self) -> None:
        """Make a lock that is free."""
        self._lock = threading.Lock()
        self._holder: int | None = None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Hold the lock for the block; wait for it at most `seconds`."""
        me = threading.get_ident()
        if self._holder == me:
            raise CannotJoin(
                "this thread has a transaction of the store open, and this call is not part of it: pass the "
                "transaction as tx=, or end it first"
            )
        lock = self._lock  # a fork within the block gives the child another one
        if not lock.acquire(timeout=max(0.0, seconds)):
            raise StoreUnavailable(
                f"another thread of this process kept a transaction open for {seconds:.0f} s; make it shorter"
            )
        self._holder = me
        try:
            yield
        finally:
            self._holder = None
            lock.release()
