"""The hooks of a worker: what its process, its threads and its event loops call when they start and stop.

process:  start ──► threads and loops start ... stop ──► stop
a hook fails at the start ──► the worker stops, and `run` raises the error; jobs that it holds go back unharmed
a hook fails at the stop  ──► logged
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue

from stanchion.core.functions import Hooks, Per, When

log = logging.getLogger("stanchion.worker")

AsyncHook = Callable[[], Awaitable[object]]


class WorkerHooks:
    """Calls the hooks of one worker. `finish` makes the worker stop, as a hook has failed."""

    def __init__(self, hooks: Hooks, finish: Callable[[], None]) -> None:
        self._hooks, self._finish = hooks, finish
        self.error: BaseException | None = None
        """The error of a start hook."""
        self._of_threads = bool(hooks.of("start", "thread", asynchronous=False)) or bool(
            hooks.of("stop", "thread", asynchronous=False)
        )
        self._ended: SimpleQueue[None] = SimpleQueue()

    # -- the process

    def start_process(self) -> None:
        """Call the sync hooks of the process, and let their errors through."""
        for hook in self._hooks.of("start", "process", asynchronous=False):
            hook()

    def stop_process(self, seconds: float) -> None:
        """Call the sync hooks of the process, and wait for them up to `seconds`."""
        if hooks := self._hooks.of("stop", "process", asynchronous=False):
            thread = threading.Thread(target=_stop, args=(hooks,), name="stanchion-stop-hooks", daemon=True)
            thread.start()
            thread.join(seconds)
            if thread.is_alive():
                log.error("a hook of on_worker_stop did not end within %.0f s; the worker stops without it", seconds)

    # -- its threads

    def within(self, work: Callable[[], bool]) -> None:
        """Run a thread: its hooks, and `work` between them. `work` returns False if another thread has replaced it."""
        if not self._of_threads:
            work()
            return
        try:
            for hook in self._hooks.of("start", "thread", asynchronous=False):
                hook()
        except BaseException as error:
            self.failed(error)
            self._ended.put(None)
            return
        counts = True
        try:
            counts = work()
        finally:
            _stop(self._hooks.of("stop", "thread", asynchronous=False))
            if counts:
                self._ended.put(None)

    def wait_for_threads(self, number: int, seconds: float) -> None:
        """Wait until so many threads have ended, up to `seconds`."""
        deadline = time.monotonic() + seconds
        try:
            for _ in range(number if self._of_threads else 0):
                self._ended.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            log.error("hooks of on_worker_stop did not end within %.0f s; the worker stops without them", seconds)

    # -- its event loops

    @property
    def needs_loop(self) -> bool:
        """Whether the process has async hooks, which run on its first event loop."""
        return bool(self._async("start", "process") or self._async("stop", "process"))

    def starts(self, first: bool) -> list[AsyncHook]:
        """Return the hooks of a new event loop; the first loop also calls the process's hooks."""
        return [*(self._async("start", "process") if first else ()), *self._async("start", "thread")]

    def stops(self, last: bool) -> list[AsyncHook]:
        """Return the hooks of an event loop that ends; the last loop also calls the process's hooks."""
        return [*self._async("stop", "thread"), *(self._async("stop", "process") if last else ())]

    def _async(self, when: When, per: Per) -> list[AsyncHook]:
        return self._hooks.of(when, per, asynchronous=True)

    # -- failures

    def failed(self, error: BaseException) -> None:
        """Stop the worker, as a hook has failed at the start of a thread or of a loop."""
        if self.error is None:
            self.error = error
            log.error("a hook of on_worker_start failed; the worker stops", exc_info=error)
        self._finish()

    @property
    def trouble(self) -> str | None:
        """The reason why the worker is red, if a hook has failed."""
        return None if self.error is None else "a hook of on_worker_start failed"

    def check(self) -> None:
        """Raise the error of a hook that has failed at the start."""
        if self.error is not None:
            raise self.error


async def astop(hooks: list[AsyncHook]) -> None:
    """Call the hooks of an event loop that ends."""
    for hook in hooks:
        try:
            await hook()
        except BaseException:
            log.exception("the hook %r of on_worker_stop failed; the worker stops all the same", hook)


def _stop(hooks: list[Callable[[], object]]) -> None:
    for hook in hooks:
        try:
            hook()
        except BaseException:
            log.exception("the hook %r of on_worker_stop failed; the worker stops all the same", hook)
