"""Threads for calls that would block an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from stanchion.core.forks import reset_after_fork

T = TypeVar("T")

_IDLE_SECONDS: Final = 10.0


class DaemonPool:
    """Up to `most` threads, created when needed, that end after ten idle seconds.

    They are daemons: threads that outlive the main thread can still use them, and they do not delay exit.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without threads and calls."""
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = self._free = 0  # free: idle threads, less the calls that wait for one

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call in one of the threads. A call that is cancelled before it starts never runs."""
        future: Future[T] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    value = call()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(value)

        self.put(work)
        return future

    def put(self, work: Callable[[], None]) -> None:
        """Run in one of the threads what raises no error."""
        with self._lock:
            self._free -= 1
            if self._free < 0 and self._threads < self._most:
                self._threads += 1
                self._free += 1
                threading.Thread(target=self._serve, args=(self._calls,), name=self._name, daemon=True).start()
            self._calls.put(work)

    def close(self) -> None:
        """Stop the threads once the pending calls are done; a later call starts new ones."""
        with self._lock:
            for _ in range(self._threads):
                self._calls.put(None)
            self._begin()

    def _serve(self, calls: SimpleQueue[Callable[[], None] | None]) -> None:
        while True:
            try:
                work = calls.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if calls is self._calls and calls.empty():
                        self._threads -= 1
                        self._free -= 1
                        return
                continue
            if work is None:
                return
            work()
            del work  # an idle thread keeps nothing alive
            with self._lock:
                if calls is self._calls:  # else it was closed
                    self._free += 1
