"""Deadlines of a page's reads.

A late read is left behind, in its thread: nothing can stop it. So at most MOST of a kind are under way, and while one
of them is late, no other of its kind begins: reloading the page gives a slow database no more work.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from math import inf
from typing import Any, Final, Generic, TypeVar

from stanchion.core import environment
from stanchion.errors import StoreUnavailable

T = TypeVar("T")

SECONDS: Final = 2.0
"""Deadline of the reads that a page needs, and of each further part of it."""

VARIABLE: Final = environment.PAGE_SECONDS
"""The environment variable that sets another one."""

MOST: Final = 4
"""Reads of a kind that are under way at most; others wait for one of them, within their deadline."""


class Missed(StoreUnavailable):
    """A read that has not ended in time, or that was not begun, as one of its kind is late."""


class Deadlines:
    """Runs the reads of one site. `seconds`: None for STANCHION_PAGE_SECONDS, else SECONDS; by the clock."""

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds_set() if seconds is None else seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._running, self._late = Counter[str](), Counter[str]()

    def read(self, kind: str, what: str, read: Callable[[], T]) -> T:
        """Return the result of a read. `what`: its name in words. Raises Missed.

        The time that it takes does not count for the surrounding read.
        """
        outer = _current.get()
        left = inf if outer is None else outer.pause()
        try:
            return self._read(kind, what, read)
        finally:
            if outer is not None:
                outer.go_on(left)

    @property
    def late(self) -> int:
        """Reads that are late and still under way."""
        return self._late.total()

    def join(self) -> None:
        """Wait until no read is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running.total())

    def allow(self, seconds: float) -> None:
        """Give the read under way more time."""
        if (current := _current.get()) is not None:
            current.go_on(current.pause() + seconds)

    def lift(self) -> None:
        """Let the read under way take as long as it needs: it waits for the store no more."""
        if (current := _current.get()) is not None:
            current.pause()

    def _read(self, kind: str, what: str, read: Callable[[], T]) -> T:
        missed = Missed(f"{what} could not be read within {self.seconds:g} s: the store is slow")
        with self._changed:
            free = self._changed.wait_for(lambda: self._late[kind] or self._running[kind] < MOST, self.seconds)
            if not free or self._late[kind]:
                raise missed
            self._running[kind] += 1
        one = _Read[T](self._clock, self.seconds)
        run = copy_context().run
        threading.Thread(target=run, args=(self._run, kind, one, read), name="stanchion-web-read", daemon=True).start()
        one.wait()
        with self._changed:
            if not one.result.done():
                one.late = True
                self._late[kind] += 1
                self._changed.notify_all()
                raise missed
        return one.result.result()

    def _run(self, kind: str, one: _Read[T], read: Callable[[], T]) -> None:
        _current.set(one)
        try:
            end = partial(one.succeed, read())
        except BaseException as error:
            end = partial(one.fail, error)
        with self._changed:
            self._running[kind] -= 1
            self._late[kind] -= one.late
            end()
            self._changed.notify_all()


class _Read(Generic[T]):
    """A read under way. `until`: when it is late."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self.result: Future[T] = Future()
        self.late = False
        self._clock, self._until = clock, clock() + seconds
        self._news = threading.Event()

    def wait(self) -> None:
        """Wait until it has ended or is late."""
        while not self.result.done():
            self._news.clear()
            left = self._until - self._clock()
            if left <= 0:
                return
            if not self.result.done():
                self._news.wait(None if left == inf else left)

    def pause(self) -> float:
        """Stop its clock; return the remaining time."""
        left, self._until = self._until - self._clock(), inf
        self._news.set()
        return left

    def go_on(self, left: float) -> None:
        """Restart its clock."""
        self._until = self._clock() + left
        self._news.set()

    def succeed(self, result: T) -> None:
        """End it with a result."""
        self.result.set_result(result)
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """End it with an error."""
        self.result.set_exception(error)
        self._news.set()


_current: ContextVar[_Read[Any] | None] = ContextVar("stanchion_web_read", default=None)


def seconds_set() -> float:
    """Return the deadline that the environment sets, else SECONDS."""
    with suppress(ValueError):
        if (given := float(os.environ.get(VARIABLE, ""))) > 0:
            return given
    return SECONDS
