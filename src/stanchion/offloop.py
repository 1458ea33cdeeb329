"""Asyncio beside the sync API, from one source: the sync call, off the event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def off_loop(call: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """Return an awaitable twin of `call` that runs it in a thread."""

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(call, *args, **kwargs)

    twin.__doc__ = f"Await `{call.__name__}`, run off the event loop."
    return twin
