"""The event loop that runs a worker's async tasks.

running ──a task stops it, or raises SystemExit──► running: it is restarted
   ├──the loop itself keeps failing──► broken: its attempts fail, the worker gets another loop
   └──stop──► stopping: running tasks are cancelled ──► closed
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from stanchion.worker.running.attempt import AnyAttempt, Ends, Limit, Running
from stanchion.worker.running.hooks import WorkerHooks, astop
from stanchion.worker.running.timeouts import Timeouts, half_way

log = logging.getLogger("stanchion.worker")

CLEAN_UP = 1.0
"""Seconds that cancelled tasks get to clean up when the loop stops."""

SILENT = 30.0
"""Seconds without an answer after which a loop counts as blocked by one of its tasks."""

FAILURES = 10
"""Consecutive failures of the loop itself, each within SOUND seconds, after which it counts as broken."""

INTERRUPTIBLE = 0.05
"""Seconds that a thread waits at a time: an interrupt arrives between two of them."""

SOUND = 1.0
WARN_EVERY = 60.0


async def _awaited(value: Awaitable[object]) -> object:
    return await value


class AsyncLoop:
    """One event loop in a separate thread.

        setting up ──hooks──► running ──stop──► winding up ──hooks──► closed

    `ended(slot, ends)` is called for every attempt, in that thread. `broken(loop)` is called when the loop can't
    go on; its attempts fail. `first`: it also runs the hooks of the process.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        ended: Callable[[int, Ends], None],
        broken: Callable[[AsyncLoop], None],
        hooks: WorkerHooks,
        first: bool,
    ) -> None:
        self._hooks, self._starts, self.last = hooks, hooks.starts(first), False
        self._early: list[tuple[int, AnyAttempt]] | None = []
        """Attempts that wait for the hooks; None: these are done."""
        self.ready = threading.Event()
        """Set once the hooks are done, or have failed."""
        self._timeouts, self._ended, self._tell_broken = timeouts, ended, broken
        self._attempts: dict[int, AnyAttempt] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stopping = False
        self._error: BaseException | None = None
        self._asked_at: float | None = None
        self._quiet_until = 0.0
        self.waiting: set[Future[object]] = set()
        """What threads wait for."""
        self.given_up = False
        """True once the worker has replaced this loop."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="stanchion-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        if not self._set_up():
            return
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
                log.error("a task stopped the event loop; it has been restarted", exc_info=error)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _set_up(self) -> bool:
        """Run the hooks of the start; return False if one has failed."""
        try:
            for hook in self._starts:
                self._loop.run_until_complete(_awaited(hook()))
        except BaseException as error:
            self._hooks.failed(error)  # its attempts go back when the worker stops
            self._loop.close()
            return False
        finally:
            self.ready.set()
        self._call(self._begin_early)
        return True

    def _begin_early(self) -> None:
        early, self._early = self._early or (), None
        for slot, attempt in early:
            self._begin(slot, attempt)

    def _run_loop(self) -> BaseException | None:
        """Run until something stops the loop; return the loop's own error, if any."""
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # raised by a task's child task; the others can continue
            return None
        except BaseException as error:
            return error
        return None

    def _break(self, error: BaseException) -> None:
        """Fail all attempts of this loop."""
        log.error("the event loop is broken: its jobs fail, and another loop replaces it", exc_info=error)
        self._error = error
        self._tell_broken(self)
        for slot in list(self._attempts):
            self._fail(slot, error)

    def _fail(self, slot: int, error: BaseException) -> None:
        attempt = self._attempts.pop(slot, None)
        if attempt is not None:  # else another thread was faster
            if attempt.limit is not None:
                self._timeouts.lift(attempt.limit)
            self._ended(slot, attempt.raised(RuntimeError(f"the event loop is broken: {error!r}")))

    @property
    def active(self) -> int:
        """The number of attempts on this loop."""
        return len(self._attempts)

    @property
    def slots(self) -> list[int]:
        """The slots of the attempts on this loop."""
        return list(self._attempts)

    @property
    def blocked(self) -> bool:
        """True if the loop has not answered for SILENT seconds. Each read pings the loop, so read it regularly."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            if not self._call(self._answer):
                self._asked_at = None
            return False
        return time.monotonic() - self._asked_at >= SILENT

    def _answer(self) -> None:
        self._asked_at = None

    def blocking(self) -> int | None:
        """Return the slot of the attempt that occupies the loop now; None if unknown."""
        task = asyncio.current_task(self._loop)
        return next((slot for slot, one in self._tasks.copy().items() if one is task), None)

    def start(self, slot: int, attempt: AnyAttempt) -> None:
        """Start an attempt that is already among the running ones."""
        self._attempts[slot] = attempt
        if self._error is not None:  # set before the attempts fail, so that none is left over
            self._fail(slot, self._error)
        else:
            self._call(self._begin, slot, attempt)

    def limit(self, slot: int, seconds: float) -> Limit:
        """Return a limit that cancels the attempt in this slot."""
        return Limit(seconds, lambda: self.cancel(slot), half_way)

    def cancel(self, slot: int) -> None:
        """Cancel the attempt in this slot, if it still runs here."""
        if slot in self._attempts:
            self._call(self._cancel, slot)

    def stop(self) -> None:
        """Cancel what still runs, give it CLEAN_UP seconds, and end the loop."""
        self._call(self._begin_to_wind_up)

    def _call(self, function: Callable[..., object], *given: object) -> bool:
        """Call a function in the loop's thread; False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(function, *given)
        except RuntimeError:
            return False
        return True

    def _begin(self, slot: int, attempt: AnyAttempt) -> None:
        if self._early is not None:
            self._early.append((slot, attempt))
            return
        self._tasks[slot] = self._loop.create_task(self._run(slot, attempt), context=attempt.context)

    def _cancel(self, slot: int) -> None:
        task = self._tasks.get(slot)
        if task is not None:
            # Not immediately: a task cancelled before its first step never reports its end.
            self._loop.call_soon(task.cancel)

    async def _run(self, slot: int, attempt: AnyAttempt) -> None:
        try:
            value = await attempt.call()
        except BaseException as error:  # the loop must outlive whatever that is
            # No variable of this frame may keep the error, whose traceback has this frame: they would keep each other.
            self._leave(slot, attempt)
            self._ended(slot, attempt.raised(error))
        else:
            self._leave(slot, attempt)
            self._ended(slot, attempt.returned(value))

    def _leave(self, slot: int, attempt: AnyAttempt) -> None:
        if attempt.limit is not None:
            self._timeouts.lift(attempt.limit)
        del self._tasks[slot]
        self._attempts.pop(slot, None)

    def wait_for(self, value: Awaitable[object]) -> object:
        """Run something on this loop, and wait for it in the caller's thread, which can be interrupted meanwhile."""
        ended = threading.Event()
        running = asyncio.run_coroutine_threadsafe(_awaited(value), self._loop)
        running.add_done_callback(lambda _: ended.set())
        self.waiting.add(running)
        try:
            while not ended.wait(INTERRUPTIBLE):
                if self._error is not None or self._loop.is_closed():
                    raise RuntimeError("the event loop ended before the task's awaitable was done")
            return running.result()
        finally:
            self.waiting.discard(running)
            running.cancel()
            del running  # its error has this frame in its traceback

    def join(self, seconds: float) -> None:
        """Wait until it has stopped."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            log.error("an event loop, or a hook of on_worker_stop on it, did not end within %.0f s", seconds)

    def _begin_to_wind_up(self) -> None:
        self._winding_up = self._loop.create_task(self._wind_up())

    async def _wind_up(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEAN_UP)
        await astop(self._hooks.stops(self.last))
        self._stopping = True
        self._loop.stop()


class Loops:
    """Provides an event loop that is not blocked.

    `ended(slot, ends)` is called for every attempt that ends on a loop, `give_back(slot)` for one that can't
    continue because another attempt blocks its loop.
    """

    def __init__(
        self,
        running: Running,
        timeouts: Timeouts,
        ended: Callable[[int, Ends], None],
        give_back: Callable[[int], None],
        hooks: WorkerHooks,
    ) -> None:
        self._hooks, self._begun = hooks, False
        self._running, self._timeouts = running, timeouts
        self._ended, self._give_back = ended, give_back
        self._lock = threading.Lock()
        self._current: AsyncLoop | None = None
        self._all: list[AsyncLoop] = []

    def current(self) -> AsyncLoop:
        """Return the loop for new attempts, created when needed."""
        with self._lock:
            if self._current is None:
                first, self._begun = not self._begun, True
                self._current = AsyncLoop(self._timeouts, self._ended, self._broken, self._hooks, first)
                self._all.append(self._current)
            return self._current

    def begin(self) -> None:
        """Run the async hooks of the process on its first loop. Raises what they raise."""
        if self._hooks.needs_loop:
            self.current().ready.wait()
            self._hooks.check()

    def wait_for(self, value: Awaitable[object]) -> object:
        """Wait in this thread for something that runs on the loop of new attempts."""
        return self.current().wait_for(value)

    @property
    def active(self) -> int:
        """The number of attempts on all loops."""
        return sum(loop.active for loop in self._all.copy())

    def replace_current(self) -> None:
        """Start new attempts on another loop; the current one keeps its own."""
        with self._lock:
            self._current = None

    def cancel(self, slot: int) -> None:
        """Cancel the attempt in this slot, if it runs on a loop."""
        for loop in self._all.copy():
            loop.cancel(slot)

    def stop(self) -> None:
        """Stop all loops; what still runs there is cancelled."""
        if self._hooks.needs_loop and self._begun:
            self.current().last = True
        for loop in self._all.copy():
            loop.stop()

    def join(self, seconds: float) -> None:
        """Wait for the hooks of loops that stop, up to `seconds`."""
        deadline = time.monotonic() + seconds
        for loop in self._all.copy() if self._hooks.stops(last=True) else ():
            loop.join(max(0.0, deadline - time.monotonic()))

    def check(self) -> None:
        """Replace a blocked loop, and stop those no longer needed. Called about every second."""
        for loop in self._all.copy():
            if loop.blocked:
                if not loop.given_up:
                    loop.given_up = True
                    self._leave(loop)
            elif loop is not self._current and not loop.active and not loop.waiting:
                loop.stop()
                self._forget(loop)

    def trouble(self) -> str | None:
        """Return what blocks a loop, or None."""
        for loop in self._all.copy():
            if loop.blocked:
                return f"an event loop is blocked by {self._blocking(loop)}"
        return None

    def _leave(self, loop: AsyncLoop) -> None:
        """Return the attempts that can't continue; start new ones on another loop."""
        slot = loop.blocking()
        log.error(
            "the event loop has been blocked for %g s by %s; async jobs continue in another loop. Run blocking calls "
            "with asyncio.to_thread(), or in a sync task",
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
        return "something in a job" if attempt is None else attempt.label

    def _broken(self, loop: AsyncLoop) -> None:
        with self._lock:
            if self._current is loop:
                self._current = None
        self._forget(loop)

    def _forget(self, loop: AsyncLoop) -> None:
        with self._lock:
            if loop in self._all:
                self._all.remove(loop)
