"""Threads for calls that would block an event loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from stanchion.core.forks import reset_after_fork

T = TypeVar("T")

_IDLE_SECONDS = 10.0


class DaemonPool:
    """Up to `most` threads, created when needed, that end after ten idle seconds.

    They are daemons: threads that outlive the main thread can still use them, and they do not delay exit.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without threads and calls."""
        self._ready = threading.Condition()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = self._idle = 0
        self._closing = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call in one of the threads. A call that is cancelled before it starts never runs."""
        future: Future[T] = Future()
        with self._ready:
            self._closing = False
            self._calls.append((future, call))
            if len(self._calls) > self._idle and self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            self._ready.notify()
        return future

    def close(self) -> None:
        """Stop the threads once the pending calls are done; a later call starts new ones."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()

    def _serve(self) -> None:
        while (taken := self._take()) is not None:
            future, call = taken
            if future.set_running_or_notify_cancel():
                try:
                    value = call()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(value)
            del taken, future, call  # an idle thread keeps nothing alive

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Return the next call; None if the thread should end."""
        with self._ready:
            self._idle += 1
            self._ready.wait_for(lambda: self._calls or self._closing, _IDLE_SECONDS)
            self._idle -= 1
            if self._calls:
                return self._calls.popleft()
            self._threads -= 1
            return None
