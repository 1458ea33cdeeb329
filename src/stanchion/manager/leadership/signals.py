"""How managers wake each other: by a value, whose change is a sign for all that listen.

A sign that is lost costs a third of a lease: the others look then anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from stanchion.manager.window.reader import OffLoop
from stanchion.manager.window.watcher import Watcher
from stanchion.stores.protocol import Store
from stanchion.stores.wakeup.values import SIGNALS

log = logging.getLogger("stanchion.manager")

_NAME = "leadership"


class Signals:
    """Wakes the other managers of a store, and calls `woken` when one of them does. Made in the event loop."""

    def __init__(self, store: Store, off_loop: OffLoop, woken: Callable[[], None]) -> None:
        self._store, self._off_loop, self._woken = store, off_loop, woken
        self._loop = asyncio.get_running_loop()
        self._watcher = Watcher(store, self._signed_in_thread)
        self._sending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen to the others."""
        self._watcher.watch([SIGNALS])

    def send(self, _addresses: Sequence[str] = ()) -> None:
        """Wake the others, soon."""
        task = self._loop.create_task(self._send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Send pending signals, and stop listening."""
        if self._sending:
            await asyncio.wait(set(self._sending))
        await self._off_loop(self._watcher.close)

    async def _send(self) -> None:
        try:
            await self._off_loop(partial(self._watcher.unheard, self._change))
        except Exception as error:
            log.debug("the other managers could not be woken, and look by themselves: %s", error)

    def _change(self) -> None:
        # Refused: another manager has just changed it, after the state for others was stored: a signal as well.
        value = next(iter(self._store.values(SIGNALS, [_NAME])), None)
        version = 0 if value is None else value.version
        self._store.compare_and_set(SIGNALS, _NAME, str(version), version)

    def _signed_in_thread(self, _queues: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken)
