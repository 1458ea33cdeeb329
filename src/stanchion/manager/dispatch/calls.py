"""Calls of the store: counted, repeated while it does not answer, and halved around a row that it refuses.

Group commit: a loop of rounds, each of which takes everything waiting, makes one store call, and answers. There is no
timer: a round that finds the loop idle begins immediately, and later arrivals join the next one. So batches grow with
the load.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from stanchion.core.backoff import Backoff
from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.manager.window.reader import OffLoop

log = logging.getLogger("stanchion.manager")

T = TypeVar("T")
R = TypeVar("R")

LOG_SECONDS = 10.0
"""Time between two log lines of one outage."""


class Calls:
    """Calls of the store in threads."""

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop = off_loop
        self.statements = 0
        """Calls so far."""
        self.of_queue: Counter[str] = Counter()
        """Calls so far that had jobs of a queue."""
        self.away = False
        """True while the store does not answer."""
        self._logged_at = -LOG_SECONDS

    def count(self, queues: Collection[str]) -> None:
        """Count a call that has jobs of these queues."""
        self.statements += 1
        self.of_queue.update(queues)

    async def once(self, queues: Collection[str], call: Callable[[], T]) -> T:
        """Make a call that has jobs of these queues."""
        self.count(queues)
        found = await self.tried(call)
        self.answers()
        return found

    async def tried(self, call: Callable[[], T]) -> T:
        """Make a call that is counted, and whose success shows that the store answers."""
        return await self._off_loop(call)

    def answers(self) -> None:
        """Take in that the store answers."""
        self.away = False

    async def answered(self, queues: Collection[str], call: Callable[[bool], T]) -> T:
        """Make a call until the store answers; it gets True once a reply may have been lost."""
        backoff, repeat = Backoff(), False
        while True:
            try:
                return await self.once(queues, partial(call, repeat))
            except (StoreUnavailable, SchemaMismatch) as error:
                repeat, pause = True, backoff.failed()
                self.waits(error, f"waiting for the store, next try in {pause:.1f} s")
                await asyncio.sleep(pause)

    def waits(self, error: Exception, what: str, *, away: bool = True) -> None:
        """Take in that calls wait; `away`: for the store as a whole."""
        now = asyncio.get_running_loop().time()
        if (away and not self.away) or now - self._logged_at >= LOG_SECONDS:
            unexpected = not isinstance(error, (StoreUnavailable, SchemaMismatch))
            log.warning("%s: %s", what, error, exc_info=error if unexpected else None)
            self._logged_at = now
        self.away = self.away or away


async def in_halves(
    items: Sequence[T], call: Callable[[Sequence[T]], Awaitable[R]]
) -> tuple[list[R], list[tuple[T, Exception]]]:
    """Make a call for all items; if the store refuses it, for each half of them, and so on.

    Return the calls' results, and the single items that were refused. Other errors are raised.
    """
    try:
        return [await call(items)], []
    except (StoreUnavailable, SchemaMismatch):
        raise
    except Exception as error:
        if len(items) == 1:
            return [], [(items[0], error)]
    half = len(items) // 2
    first, refused = await in_halves(items[:half], call)
    second, also = await in_halves(items[half:], call)
    return [*first, *second], [*refused, *also]


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
