"""Asyncio beside the sync API, from one source: the sync call, off the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from stanchion.core.threads import DaemonPool

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 16
"""Calls of one app that run at once; each is short."""


def calls_pool() -> DaemonPool:
    """Return the threads on which an app makes the calls of its coroutines."""
    return DaemonPool("stanchion-call", THREADS)


def off_loop(call: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """Return an awaitable twin of a method that runs it in a thread of its app.

    Not for calls that wait: each would keep a thread.
    """

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        owner = getattr(call, "__self__", None) or args[0]
        run = functools.partial(contextvars.copy_context().run, call, *args, **kwargs)
        return await asyncio.wrap_future(_pool_of(owner).submit(run))

    twin.__doc__ = f"Await `{call.__name__}`, run off the event loop."
    return twin


def _pool_of(owner: Any) -> DaemonPool:
    """Return the threads of the context that an object has; where it has none, those of no app."""
    context = getattr(owner, "_context", None) or getattr(owner, "context", None)
    return _OF_NO_APP if context is None else context.calls


_OF_NO_APP = calls_pool()
