"""Async tasks."""

import asyncio
import threading
import time

import pytest

from stanchion import Worker
from tests.worker.conftest import working

pytestmark = pytest.mark.parametrize("app", ["memory"], indirect=True)


def test_async_tasks_share_one_loop_and_the_slots(app):
    threads, now, most = set(), [0], [0]

    @app.task
    async def wait(n: int) -> int:
        threads.add(threading.get_ident())
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.05)
        now[0] -= 1
        return n

    with working(app, threads=5):
        handles = wait.enqueue_many([(n,) for n in range(20)])
        assert [handle.result(timeout=30) for handle in handles] == list(range(20))
    assert len(threads) == 1
    assert most[0] == 5


def test_sync_and_async_tasks_share_the_slots(app):
    lock, now, most = threading.Lock(), [0], [0]

    def step(by: int) -> None:
        with lock:
            now[0] += by
            most[0] = max(most[0], now[0])

    @app.task
    async def later() -> None:
        step(1)
        await asyncio.sleep(0.02)
        step(-1)

    @app.task
    def sync() -> None:
        step(1)
        time.sleep(0.02)
        step(-1)

    for _ in range(15):
        later.enqueue()
        sync.enqueue()
    Worker(app, threads=4, until_empty=True).run()
    assert most[0] <= 4
    assert app.queue("default").counts().committed == 30


def test_async_tasks_reach_the_store(app):
    @app.task
    async def inner() -> int:
        return 2

    @app.task
    async def outer() -> int:
        handle = await inner.aenqueue()
        return 1 + int(await handle.aresult(timeout=5))

    with working(app):
        assert outer.enqueue().result(timeout=30) == 3
