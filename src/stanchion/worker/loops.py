"""The event loops of a worker: the one that new attempts begin on, and those that still have some from before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from stanchion.worker.attempt import Finished, Running
from stanchion.worker.loop import SILENT, AsyncLoop
from stanchion.worker.timeouts import Timeouts

log = logging.getLogger("stanchion.worker")


class Loops:
    """Gives out a loop that answers.

    `ended(slot, finished)` is called for every attempt that ends on a loop, `give_back(slot)` for one that can't go on,
    as another blocks its loop.
    """

    def __init__(
        self,
        running: Running,
        timeouts: Timeouts,
        ended: Callable[[int, Finished], None],
        give_back: Callable[[int], None],
    ) -> None:
        self._running, self._timeouts = running, timeouts
        self._ended, self._give_back = ended, give_back
        self._lock = threading.Lock()
        self._current: AsyncLoop | None = None
        self._all: list[AsyncLoop] = []

    def current(self) -> AsyncLoop:
        """Return the loop for new attempts; it is made when needed."""
        with self._lock:
            if self._current is None:
                self._current = AsyncLoop(self._timeouts, self._ended, self._broken)
                self._all.append(self._current)
            return self._current

    @property
    def active(self) -> int:
        """Attempts that run on loops."""
        return sum(loop.active for loop in self._all.copy())

    def turn_away(self) -> None:
        """Let new attempts begin on another loop; the present one keeps those that it has."""
        with self._lock:
            self._current = None

    def cancel(self, slot: int) -> None:
        """Cancel the attempt in this slot, if it runs on a loop."""
        for loop in self._all.copy():
            loop.cancel(slot)

    def stop(self) -> None:
        """End all loops; what still runs there is cancelled."""
        for loop in self._all.copy():
            loop.stop()

    def look(self) -> None:
        """Turn away from a loop that is blocked, and end those that are no longer needed; called every now and then."""
        for loop in self._all.copy():
            if loop.blocked:
                if not loop.given_up:
                    loop.given_up = True
                    self._leave(loop)
            elif loop is not self._current and not loop.active:
                loop.stop()
                self._forget(loop)

    def trouble(self) -> str | None:
        """Say which loop is blocked, if any, and by what."""
        for loop in self._all.copy():
            if loop.blocked:
                return f"an event loop is blocked by {self._blocking(loop)}"
        return None

    def _leave(self, loop: AsyncLoop) -> None:
        """Give back what can't go on there; begin other attempts elsewhere."""
        slot = loop.blocking()
        log.error(
            "the event loop has been blocked for %g s by %s; async jobs go on in another loop. Call what takes long by "
            "asyncio.to_thread(), or from a task that is no coroutine",
            *(SILENT, self._blocking(loop)),
        )
        with self._lock:
            if self._current is loop:
                self._current = None
        for other in loop.slots if slot is not None else ():
            if other != slot:
                loop.cancel(other)
                self._give_back(other)

    def _blocking(self, loop: AsyncLoop) -> str:
        slot = loop.blocking()
        attempt = None if slot is None else self._running.get(slot)
        return "something in a job" if attempt is None else f"job {attempt.job.id} ({attempt.job.task})"

    def _broken(self, loop: AsyncLoop) -> None:
        with self._lock:
            if self._current is loop:
                self._current = None
        self._forget(loop)

    def _forget(self, loop: AsyncLoop) -> None:
        with self._lock:
            if loop in self._all:
                self._all.remove(loop)
