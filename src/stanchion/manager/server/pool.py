"""Calls of the store, in threads beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stanchion.core.aio import in_thread
from stanchion.core.threads import DaemonPool

T = TypeVar("T")


class StoreCalls:
    """Up to `threads` calls at once; others wait. One whose caller has gone meanwhile is never made."""

    def __init__(self, threads: int) -> None:
        self._pool = DaemonPool("stanchion-manager", threads)

    async def run(self, call: Callable[[], T]) -> T:
        """Make a call in a thread. Cancelled before it has started, it is not made; later, it goes on by itself."""
        return await in_thread(self._pool.put, call)

    def close(self) -> None:
        """Let the threads end."""
        self._pool.close()
