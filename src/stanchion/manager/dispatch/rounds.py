"""Group commit: a loop of rounds, each of which takes everything waiting, makes one store call, and answers.

There is no timer: a round that finds the loop idle begins immediately, and later arrivals join the next one. So
batches grow with the load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("stanchion.manager")

MOST = 500
"""Jobs in one call."""

FAULT_SECONDS = 1.0
"""Pause after an unexpected error."""


class Rounds:
    """Runs rounds while they find work. `round` returns False if there was none."""

    def __init__(self, name: str, round_: Callable[[], Awaitable[bool]]) -> None:
        self._name, self._round = name, round_
        self._kicked = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=f"stanchion-{self._name}")

    def kick(self) -> None:
        """Say that there may be work."""
        self._kicked.set()
        self._idle.clear()

    async def idle(self) -> None:
        """Wait until there is no work."""
        await self._idle.wait()

    async def stop(self) -> None:
        """End, also during a round; a store call under way continues by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            if not self._kicked.is_set():
                self._idle.set()
            await self._kicked.wait()
            self._kicked.clear()
            try:
                while await self._round():
                    pass
            except Exception:
                log.exception("the loop of %s has failed and continues in %g s", self._name, FAULT_SECONDS)
                await asyncio.sleep(FAULT_SECONDS)
                self._kicked.set()
