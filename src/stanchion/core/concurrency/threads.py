"""Threads for calls that would block an event loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from stanchion.core.concurrency.forks import reset_after_fork

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_IDLE_SECONDS: Final = 10.0


class _Idle:
    """A thread without a call: `wake` is released once it has one, or is to end."""

    def __init__(self) -> None:
        self.work: Callable[[], None] | None = None
        self.wake = threading.Lock()
        self.wake.acquire()


class _Group:
    """The threads that were started between two calls of `close`, and the calls that wait for one."""

    def __init__(self) -> None:
        self.threads = 0
        self.idle: list[_Idle] = []
        self.waiting: deque[Callable[[], None]] = deque()
        self.closed = False


class DaemonPool:
    """Up to `most` threads, created when needed, that end after ten idle seconds.

    They are daemons: threads that outlive the main thread can still use them, and they do not delay exit. The thread
    that became idle last gets the next call, so that surplus threads end.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without threads and calls."""
        self._lock = threading.Lock()
        self._group = _Group()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call in one of the threads. A call that is cancelled before it starts never runs."""
        from concurrent.futures import Future

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
        """Run in one of the threads what raises no error.

        Raises RuntimeError if it needs the first thread after the main thread has ended: Python 3.12 starts none then.
        """
        with self._lock:
            group = self._group
            if group.idle:
                _wake(group.idle.pop(), work)
            else:
                group.waiting.append(work)
                if group.threads < self._most:
                    self._start(group)

    def _start(self, group: _Group) -> None:
        group.threads += 1
        try:
            threading.Thread(target=self._serve, args=(group,), name=self._name, daemon=True).start()
        except RuntimeError:
            group.threads -= 1
            if not group.threads:
                group.waiting.pop()
                raise

    def close(self) -> None:
        """Stop the threads once the pending calls are done; a later call starts new ones."""
        with self._lock:
            group, self._group = self._group, _Group()
            group.closed = True
            for one in group.idle:
                _wake(one, None)

    def _serve(self, group: _Group) -> None:
        while (work := self._next(group)) is not None:
            work()
            del work  # an idle thread keeps nothing alive

    def _next(self, group: _Group) -> Callable[[], None] | None:
        """Return the next call; None if the group was closed, or none came for ten seconds."""
        with self._lock:
            if group.waiting:
                return group.waiting.popleft()
            if group.closed:
                return None
            group.idle.append(me := _Idle())
        # A lock, as the get of a SimpleQueue with a time-out can wait for ever: if another thread takes what it was
        # woken for, it waits for the time that is left, which may be negative then.
        if not me.wake.acquire(timeout=_IDLE_SECONDS):
            with self._lock:
                if me in group.idle:  # else it was woken just now
                    group.idle.remove(me)
                    group.threads -= 1
        return me.work


def _wake(idle: _Idle, work: Callable[[], None] | None) -> None:
    idle.work = work
    idle.wake.release()
