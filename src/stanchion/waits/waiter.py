"""A waiter: a thread or a coroutine that waits for one answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_TICK_SECONDS = 0.25
"""Seconds between wake-ups of a waiting thread, so that the time-out of a task can interrupt it."""


class Waiter(Generic[T]):
    """Waits for one answer.

        waiting ──deliver, fail──► answered ──► taken, or, where the waiter was cancelled meanwhile, returned
           └──leave, loop closed──► gone: an answer is refused

    `deadline`: on the monotonic clock. `loop`: the event loop of a coroutine; None for a thread. `left` is called
    when it stops waiting without an answer, `returned` with an answer that came too late.
    """

    def __init__(
        self,
        deadline: float,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        left: Callable[[], None] = lambda: None,
        returned: Callable[[T], None] = lambda _value: None,
    ) -> None:
        self.deadline = deadline
        self._loop, self._left, self._returned = loop, left, returned
        self._lock = threading.Lock()
        self._gone = self._answered = False
        self._values: tuple[T, ...] = ()
        self._error: BaseException | None = None
        self._event = threading.Event() if loop is None else None
        self._arrived: asyncio.Future[None] | None = None if loop is None else loop.create_future()

    @property
    def waits(self) -> bool:
        """True until it is answered or gone."""
        return not self._gone and not self._answered

    def deliver(self, value: T) -> bool:
        """Answer with a value. Returns False if it waits no more: the caller keeps the value."""
        return self._answer((value,), None)

    def fail(self, error: BaseException) -> bool:
        """Answer with an error. Returns False if it waits no more."""
        return self._answer((), error)

    def result(self) -> T:
        """Block until answered; return the value or raise the error."""
        assert self._event is not None  # noqa: S101 - made for a thread
        try:
            while not self._event.wait(_TICK_SECONDS):
                pass
        except BaseException:
            self._leave()
            raise
        return self._taken()

    async def answer(self) -> T:
        """Wait on the event loop until answered; return the value or raise the error."""
        assert self._arrived is not None  # noqa: S101 - made for a coroutine
        try:
            await self._arrived
        except BaseException:  # cancelled, or its loop is closed
            self._leave()
            raise
        return self._taken()

    def _answer(self, values: tuple[T, ...], error: BaseException | None) -> bool:
        with self._lock:
            if not self.waits:
                return False
            self._answered, self._values, self._error = True, values, error
            if self._event is not None:
                self._event.set()
                return True
            try:
                self._loop.call_soon_threadsafe(self._wake)  # type: ignore[union-attr]  # a coroutine has one
            except RuntimeError:  # its loop is closed
                self._answered, self._gone = False, True
                return False
            return True

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _taken(self) -> T:
        if self._error is not None:
            raise self._error
        return self._values[0]

    def _leave(self) -> None:
        with self._lock:
            answered, self._gone = self._answered, True
        if not answered:
            with suppress(RuntimeError):
                self._left()
        elif self._error is None:
            self._returned(self._values[0])
