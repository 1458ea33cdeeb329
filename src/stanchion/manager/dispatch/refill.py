"""Reads the store for the windows: when one runs low, after a signal of work, and every second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from stanchion.core.backoff import Backoff
from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.slices import Slices
from stanchion.manager.window.reader import OffLoop, Reader

log = logging.getLogger("stanchion.manager")

PACE = 0.02
"""Seconds between two looks after signs."""


class Refill:
    """Reads the windows. `read` is called after each poll with the queues where others may have changed jobs."""

    def __init__(self, reader: Reader, off_loop: OffLoop, slices: Slices, delays: Delays) -> None:
        self._reader, self._off_loop, self._slices, self._delays = reader, off_loop, slices, delays
        self._wanted = asyncio.Event()
        self._failing = False
        self.read: Callable[[], None] = lambda: None

    def signed(self, queues: Collection[str] | None) -> None:
        """Take in that these queues may have new jobs (None: all)."""
        for queue, window in self._slices.windows.items():
            if queues is None or queue in queues:
                window.signal()
        self._wanted.set()

    def low(self) -> None:
        """Take in that a window runs low."""
        self._wanted.set()

    async def run(self) -> None:
        """Look whenever it is needed, until cancelled."""
        backoff = Backoff()
        while True:
            try:
                async with asyncio.timeout(self._delays.poll):  # wait_for may lose a cancellation
                    await self._wanted.wait()
            except TimeoutError:
                self.signed(None)  # signs may be lost
            self._wanted.clear()
            try:
                await self._look()
                backoff.succeeded()
                pause = 0.0 if self._low() else PACE
            except (StoreUnavailable, SchemaMismatch) as error:
                pause = backoff.failed()
                self._told(error)
            except Exception:
                pause = backoff.failed()
                log.exception("reading the store for the windows has failed, next try in %.1f s", pause)
            await asyncio.sleep(pause)

    async def _look(self) -> None:
        windows = list(self._slices.windows.values())
        if not windows:
            return
        before = sum(map(len, windows))
        await self._reader.look(windows, self._off_loop)
        self._failing = False
        self._more = sum(map(len, windows)) > before
        self.read()

    def _low(self) -> bool:
        """Return whether there is more to read immediately."""
        return self._more and any(window.runs_low for window in self._slices.windows.values())

    def _told(self, error: Exception) -> None:
        if not self._failing:
            log.warning("the store can't be read: %s", error)
        self._failing = True

    _more = False
