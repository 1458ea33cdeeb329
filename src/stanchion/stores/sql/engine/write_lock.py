"""The write lock of a database that has one for all, among the threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import CannotJoin, StoreUnavailable


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
