"""Running the coroutine of an async task to its end, for a thread that waits for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Coroutine
from contextvars import copy_context
from typing import TypeVar

from stanchion.core.concurrency.blocking import on_running_loop
from stanchion.core.concurrency.caller import CALLER, from_caller
from stanchion.errors import InvalidInput

T = TypeVar("T")


def run_to_end(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine: on the event loop of the task that awaits this thread's call, if one does, else on a new loop.

    A call on the thread of a running loop, such as the commit of an `AsyncSession`, can wait for the coroutine if it
    comes from SQLAlchemy's bridge. Any other blocks that loop, while a thread of its own runs the coroutine.
    """
    import asyncio

    if on_running_loop():
        bridge = sys.modules.get("sqlalchemy.util.concurrency")
        if bridge is not None and bridge.in_greenlet():
            value: T = bridge.await_only(coroutine)
            return value
        return _in_thread(coroutine)
    if CALLER.get() is None:
        return _with_django(coroutine) if "django.db" in sys.modules else asyncio.run(coroutine)
    context = copy_context()
    context.run(CALLER.set, None)  # the task that awaits this call does nothing else meanwhile
    return from_caller(lambda: asyncio.get_running_loop().create_task(coroutine, context=context))


def _with_django(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine whose calls of Django's ORM use the connections of this thread, which waits.

    They would need another thread on a loop of `asyncio.run`, and Django refuses it below `sync_to_async`.
    """
    from asgiref.sync import async_to_sync

    async def run() -> T:
        return await coroutine

    return async_to_sync(run)()


def refuse_running_loop(twin: str) -> None:
    """Raise InvalidInput if this thread runs an event loop, which jobs of async tasks would need."""
    if on_running_loop():
        raise InvalidInput(f"jobs can't be drained on the thread of a running event loop: use `await {twin}()`")


def _in_thread(coroutine: Coroutine[object, object, T]) -> T:
    import asyncio

    ended: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(asyncio.run(coroutine))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), name="stanchion-coroutine")
    thread.start()
    thread.join()
    if failed:
        raise failed.pop()
    return ended.pop()
