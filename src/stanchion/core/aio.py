"""The async API: each method runs its sync twin off the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from stanchion.core.threads import DaemonPool

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 16
"""Concurrent calls of one app; each is short."""


def calls_pool() -> DaemonPool:
    """Return the thread pool for the async calls of an app."""
    return DaemonPool("stanchion-call", THREADS)


async def in_thread(pool: DaemonPool, call: Callable[[], R]) -> R:
    """Make a call in a thread of a pool.

    Cancelled before it has started, it is not made; later, it goes on by itself.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[R] = loop.create_future()

    def answered(value: Any, error: BaseException | None) -> None:
        if answer.done():  # cancelled meanwhile
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def work() -> None:
        value, failure = None, None
        if answer.cancelled():
            return
        try:
            value = call()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(answered, value, failure)
        del value, failure  # the traceback of an error refers to this frame

    pool.put(work)  # a future of `concurrent.futures` would take as long as the rest
    return await answer


def off_loop(call: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """Return an async twin of a method that runs it in a thread of its app.

    Not for calls that wait: each would occupy a thread.
    """

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        owner = getattr(call, "__self__", None) or args[0]
        run = functools.partial(contextvars.copy_context().run, call, *args, **kwargs)
        return await in_thread(_pool_of(owner), run)

    twin.__doc__ = f"Await `{call.__name__}`, run off the event loop."
    return twin


def _pool_of(owner: Any) -> DaemonPool:
    """Return the thread pool of an object's context, or a shared one if it has none."""
    context = getattr(owner, "_context", None) or getattr(owner, "context", None)
    return _OF_NO_APP if context is None else context.calls


_OF_NO_APP = calls_pool()
