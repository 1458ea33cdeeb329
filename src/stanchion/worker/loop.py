"""The event loop on which a worker runs async tasks.

serving ──a task stops it, or lets SystemExit out──► serving: all goes on
   ├──its own code fails again and again──► broken: its attempts fail, the worker gets another loop
   └──stop──► winding up: what runs is cancelled ──► over
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from stanchion.worker.attempt import Attempt, Finished, Limit, raised, returned
from stanchion.worker.timeouts import Timeouts

log = logging.getLogger("stanchion.worker")

CLEAN_UP = 1.0
"""Seconds that cancelled tasks get when the loop ends."""

SILENT = 30.0
"""Seconds after which a loop that answers nothing is taken for blocked: one of its tasks does not let go."""

FAILURES = 10
"""So often in a row may the loop itself fail, each time within SOUND seconds, before it is broken."""

SOUND = 1.0
WARN_EVERY = 60.0


class AsyncLoop:
    """One event loop in a thread of its own.

    `ended(slot, finished)` is called for every attempt, in that thread. `broken(loop)` is called when it can't go on;
    its attempts fail then.
    """

    def __init__(
        self, timeouts: Timeouts, ended: Callable[[int, Finished], None], broken: Callable[[AsyncLoop], None]
    ) -> None:
        self._timeouts, self._ended, self._tell_broken = timeouts, ended, broken
        self._attempts: dict[int, Attempt] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stopping = False
        self._error: BaseException | None = None
        self._asked_at: float | None = None
        self._quiet_until = 0.0
        self.given_up = False
        """True once the worker has turned to another loop."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="stanchion-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            error = self._run_loop()
            if self._stopping:
                break
            if error is not None:
                failures = failures + 1 if time.monotonic() - began < SOUND else 1
            if error is not None and failures > FAILURES:
                self._break(error)
                return
            if time.monotonic() >= self._quiet_until:
                self._quiet_until = time.monotonic() + WARN_EVERY
                log.error("something in a task stopped the event loop; it goes on", exc_info=error)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _run_loop(self) -> BaseException | None:
        """Run until something stops the loop; return what went wrong with the loop itself."""
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # of a task's own tasks; the others can go on
            return None
        except BaseException as error:
            return error
        return None

    def _break(self, error: BaseException) -> None:
        """Fail all attempts: nothing will run them on."""
        log.error("the event loop is broken; its jobs fail, and another loop takes its place", exc_info=error)
        self._error = error
        self._tell_broken(self)
        for slot in list(self._attempts):
            self._fail(slot, error)

    def _fail(self, slot: int, error: BaseException) -> None:
        attempt = self._attempts.pop(slot, None)
        if attempt is not None:  # else another thread was quicker
            if attempt.limit is not None:
                self._timeouts.lift(attempt.limit)
            self._ended(slot, raised(attempt, RuntimeError(f"the event loop is broken: {error!r}")))

    @property
    def active(self) -> int:
        """Attempts that run here."""
        return len(self._attempts)

    @property
    def slots(self) -> list[int]:
        """The slots of the attempts that run here."""
        return list(self._attempts)

    @property
    def blocked(self) -> bool:
        """True when the loop has answered nothing for SILENT seconds. Asked now and then: each look is a question."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            if not self._call(self._answer):
                self._asked_at = None
            return False
        return time.monotonic() - self._asked_at >= SILENT

    def _answer(self) -> None:
        self._asked_at = None

    def blocking(self) -> int | None:
        """Return the slot of the attempt that has the loop right now; None where that can't be told."""
        task = asyncio.current_task(self._loop)
        return next((slot for slot, one in self._tasks.copy().items() if one is task), None)

    def start(self, slot: int, attempt: Attempt) -> None:
        """Begin an attempt; it is among the running ones already."""
        self._attempts[slot] = attempt
        if self._error is not None:  # set before its attempts are failed, so that none is left over
            self._fail(slot, self._error)
        else:
            self._call(self._begin, slot, attempt)

    def limit(self, slot: int, seconds: float) -> Limit:
        """Return a limit that cancels the attempt in this slot."""
        return Limit(seconds, lambda: self.cancel(slot))

    def cancel(self, slot: int) -> None:
        """Cancel the attempt in this slot, if it runs here and has not ended yet."""
        if slot in self._attempts:
            self._call(self._cancel, slot)

    def stop(self) -> None:
        """Cancel what still runs, give it a moment to clean up, and end the loop."""
        self._call(self._begin_to_wind_up)

    def _call(self, function: Callable[..., object], *given: object) -> bool:
        """Call a function in the loop's thread; False where the loop is over."""
        try:
            self._loop.call_soon_threadsafe(function, *given)
        except RuntimeError:
            return False
        return True

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
        self._attempts.pop(slot, None)
        self._ended(slot, returned(attempt, value) if error is None else raised(attempt, error))

    def _begin_to_wind_up(self) -> None:
        self._winding_up = self._loop.create_task(self._wind_up())

    async def _wind_up(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEAN_UP)
        self._stopping = True
        self._loop.stop()
