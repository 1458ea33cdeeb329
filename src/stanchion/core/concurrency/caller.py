"""The task that awaits a call in a thread, which can have awaitables run in that task.

    task:    await the call ──────► run the awaitable ─────────────► return the call's value
                  │                    ▲         │                              ▲
    thread:  start the call ──► from_caller(…)   └──► its value ──► continue ───┘

A connection of an asynchronous driver works only on its own event loop. So the statements of a call that is part of
such a connection's transaction run in the task that awaits the call, as if the task had awaited them itself: cancelled
with it, and never after it has gone on.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from stanchion.errors import CannotJoin

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Request(Generic[T]):
    """An awaitable that a thread wants to have run, and its outcome."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._done = threading.Event()
        self._values: list[T] = []
        """Its value, once there is one."""
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Run it in the present task. Its error is the thread's, but a cancellation is this task's as well."""
        try:
            self._values.append(await self._make())
        except Exception as error:
            self.fail(error)
        except BaseException as error:
            self.fail(error)
            raise
        self._done.set()

    def fail(self, error: BaseException) -> None:
        """End it with an error."""
        self._error = error
        self._done.set()

    def value(self) -> T:
        """Wait for its value."""
        self._done.wait()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        return self._values[0]


class Caller:
    """Runs awaitables for the thread of a call, while its task awaits the call."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._gone = False
        self._request: Request[Any] | None = None
        self._news: asyncio.Future[None] = self._loop.create_future()

    def run(self, make: Callable[[], Awaitable[T]]) -> T:
        """Have an awaitable run in the task; called by the thread."""
        request = Request(make)
        with self._lock:
            if self._gone:
                raise _cancelled()
            self._request = request
            self._loop.call_soon_threadsafe(self.wake)
        return request.value()

    def wake(self) -> None:
        """Take note, on the event loop, of a request or of the end of the call."""
        if not self._news.done():
            self._news.set_result(None)

    async def serve(self, answer: asyncio.Future[T]) -> T:
        """Run the requests of the thread until there is an answer; whoever sets it wakes this."""
        try:
            while True:
                await self._news
                if answer.done():
                    return answer.result()
                self._news = self._loop.create_future()
                request, self._request = self._request, None
                if request is not None:
                    await request.run()
        finally:
            with self._lock:
                self._gone = True
                if self._request is not None:
                    self._request.fail(_cancelled())


CALLER: Final[contextvars.ContextVar[Caller | None]] = contextvars.ContextVar("stanchion_caller", default=None)
"""The caller of the call that runs in this thread, if a task awaits it."""


def from_caller(make: Callable[[], Awaitable[T]]) -> T:
    """Run an awaitable in the task that awaits this thread's call. Raises NoCaller if no task does."""
    caller = CALLER.get()
    if caller is None:
        raise NoCaller
    return caller.run(make)


def awaited(make: Callable[[], Awaitable[T]]) -> T:
    """Run an awaitable of an asynchronous transaction on its event loop; CannotJoin if no task awaits this call."""
    try:
        return from_caller(make)
    except NoCaller:
        raise CannotJoin(
            "tx is asynchronous: its statements run on its event loop, so await the async twin of this call, such as "
            "aenqueue, apush or acommit"
        ) from None


def _cancelled() -> BaseException:
    import asyncio

    return asyncio.CancelledError("the task that made this call no longer waits for it")


class NoCaller(Exception):
    """A synchronous call needs an event loop, and no task awaits it."""
