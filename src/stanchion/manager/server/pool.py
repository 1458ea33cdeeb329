"""Calls of the store, in threads outside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stanchion.core.concurrency.aio import in_thread
from stanchion.core.concurrency.threads import DaemonPool

T = TypeVar("T")


class StoreCalls:
    """Up to `threads` concurrent calls; others wait. A call whose caller has gone meanwhile is never made."""

    def __init__(self, threads: int) -> None:
        self._pool = DaemonPool("stanchion-manager", threads)

    async def run(self, call: Callable[[], T]) -> T:
        """Make a call in a thread. Cancelled before its start, it is not made; later, it continues by itself."""
        return await in_thread(self._pool.put, call)

    def close(self) -> None:
        """Let the threads end."""
        self._pool.close()
