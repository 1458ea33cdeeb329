"""Calls in threads that have awaitables run in the task that awaits them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from contextvars import ContextVar
from typing import Any

import pytest

from stanchion.core.concurrency.aio import in_thread
from stanchion.core.concurrency.caller import NoCaller, from_caller
from stanchion.core.concurrency.threads import DaemonPool


@pytest.fixture
def pool() -> Iterator[DaemonPool]:
    with closing(DaemonPool("callers-of-this-test", 1)) as pool:
        yield pool


def test_awaitables_run_in_the_task_and_the_call_goes_on_with_their_values(pool: DaemonPool) -> None:
    where = []

    async def step(number: int) -> int:
        await asyncio.sleep(0)
        where.append((asyncio.current_task(), threading.get_ident()))
        return number + 1

    def call() -> int:
        assert threading.get_ident() != loop_thread
        first = from_caller(lambda: step(1))
        return from_caller(lambda: step(first))

    async def main() -> None:
        assert await in_thread(pool.put, call) == 3
        assert where == [(asyncio.current_task(), loop_thread)] * 2

    loop_thread = threading.get_ident()
    asyncio.run(main())


def test_an_error_of_the_awaitable_is_raised_in_the_call(pool: DaemonPool) -> None:
    async def fails() -> None:
        raise ValueError("of the server")

    def call() -> str:
        with pytest.raises(ValueError, match="of the server"):
            from_caller(fails)
        return "went on"

    assert asyncio.run(in_thread(pool.put, call)) == "went on"


def test_a_task_that_is_cancelled_cancels_the_awaitable_and_runs_no_more(pool: DaemonPool) -> None:
    seen: list[Any] = []
    ended = threading.Event()

    async def never() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async def later() -> None:
        seen.append("a statement of a transaction that the caller has left")

    def call() -> None:
        try:
            for make in (never, later):
                with pytest.raises(asyncio.CancelledError):
                    from_caller(make)
        finally:
            ended.set()

    async def main() -> None:
        task = asyncio.create_task(in_thread(pool.put, call))
        while not seen:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 60)

    asyncio.run(main())
    assert seen == ["began", "cancelled"]


def test_a_request_that_comes_as_the_task_is_cancelled_ends_too(pool: DaemonPool) -> None:
    began, asks, ended = threading.Event(), threading.Event(), threading.Event()

    async def later() -> None:
        raise AssertionError("the task has gone")

    def call() -> None:
        began.set()
        asks.wait(60)
        with pytest.raises(asyncio.CancelledError):
            from_caller(later)
        ended.set()

    async def main() -> None:
        task = asyncio.create_task(in_thread(pool.put, call))
        assert await asyncio.to_thread(began.wait, 60)
        task.cancel()
        asks.set()
        time.sleep(0.05)  # the request comes while the loop does something else
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 60)

    asyncio.run(main())


def test_the_context_of_the_task_is_that_of_the_call(pool: DaemonPool) -> None:
    variable: ContextVar[str] = ContextVar("variable")

    async def main() -> str:
        variable.set("of the task")
        return await in_thread(pool.put, variable.get)

    assert asyncio.run(main()) == "of the task"


def test_a_call_that_no_task_awaits_is_refused() -> None:
    with pytest.raises(NoCaller):
        from_caller(lambda: asyncio.sleep(0))
