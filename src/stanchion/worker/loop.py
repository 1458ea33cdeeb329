"""The event loop on which a worker runs async tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from stanchion.worker.attempt import Attempt, Finished, raised, returned
from stanchion.worker.timeouts import Limit, Timeouts

CLEAN_UP = 1.0
"""Seconds that cancelled tasks get when the loop ends."""


class AsyncLoop:
    """One event loop in a thread of its own.

    `ended(slot, finished)` is called in that thread for every attempt.
    """

    def __init__(self, timeouts: Timeouts, ended: Callable[[int, Finished], None]) -> None:
        self._timeouts, self._ended = timeouts, ended
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="stanchion-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    @property
    def active(self) -> int:
        """Attempts that run here."""
        return len(self._tasks)

    def start(self, slot: int, attempt: Attempt) -> None:
        """Begin an attempt; it is among the running ones already."""
        self._loop.call_soon_threadsafe(self._begin, slot, attempt)

    def limit(self, slot: int, seconds: float) -> Limit:
        """Return a limit that cancels the attempt in this slot."""
        return Limit(seconds, lambda: self.cancel(slot))

    def cancel(self, slot: int) -> None:
        """Cancel the attempt in this slot, if it has not ended yet."""
        self._loop.call_soon_threadsafe(self._cancel, slot)

    def stop(self) -> None:
        """Cancel what still runs, give it a moment to clean up, and end the loop."""
        asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)

    def _begin(self, slot: int, attempt: Attempt) -> None:
        self._tasks[slot] = self._loop.create_task(self._run(slot, attempt))

    def _cancel(self, slot: int) -> None:
        task = self._tasks.get(slot)
        if task is not None:
            # Not at once: a task that is cancelled before its first step never gets to say how it ended.
            self._loop.call_soon(task.cancel)

    async def _run(self, slot: int, attempt: Attempt) -> None:
        value, error = None, None
        try:
            value = await attempt.call()
        except BaseException as raised_by_task:  # the loop must outlive whatever that is
            error = raised_by_task
        if attempt.limit is not None:
            self._timeouts.lift(attempt.limit)
        del self._tasks[slot]
        self._ended(slot, returned(attempt, value) if error is None else raised(attempt, error))

    async def _wind_up(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEAN_UP)
        self._loop.stop()
