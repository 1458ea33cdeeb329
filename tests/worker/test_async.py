"""Async tasks."""

import asyncio
import threading
import time

import pytest

from stanchion import Retry, Worker
from tests.worker.conftest import health, until, working

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
        assert [handle.result(timeout=60) for handle in handles] == list(range(20))
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
        return 1 + int(await handle.aresult(timeout=60))

    with working(app):
        assert outer.enqueue().result(timeout=60) == 3


def test_a_task_that_stops_the_loop_harms_nobody(app, caplog):
    begun, go_on = threading.Event(), threading.Event()

    @app.task
    async def other() -> str:
        begun.set()
        while not go_on.is_set():
            await asyncio.sleep(0.005)
        return "done"

    @app.task
    async def stops() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.005)
        return "stopped"

    with working(app) as worker:
        before = other.enqueue()
        assert begun.wait(60)
        assert stops.enqueue().result(timeout=60) == "stopped"
        go_on.set()
        assert [handle.result(timeout=60) for handle in (before, other.enqueue())] == ["done", "done"]
        assert worker.healthy
    assert "stopped the event loop" in caplog.text


def test_a_task_whose_child_raises_a_system_exit_harms_nobody(app):
    @app.task
    async def exits() -> str:
        async def child() -> None:
            raise SystemExit(3)

        await asyncio.wait([asyncio.create_task(child())])
        return "survived"

    @app.task
    async def other() -> str:
        await asyncio.sleep(0.005)
        return "done"

    with working(app):
        assert exits.enqueue().result(timeout=60) == "survived"
        assert other.enqueue().result(timeout=60) == "done"


def test_a_loop_that_breaks_fails_its_jobs_and_is_replaced(app):
    @app.task(retry=Retry.constant(1000))
    async def breaks() -> None:
        def fail(*_: object) -> None:
            raise OSError("no such descriptor")

        loop = asyncio.get_running_loop()
        setattr(loop, "_run_once", fail)  # noqa: B010 - as a closed selector would
        await asyncio.sleep(60)

    @app.task
    async def other() -> str:
        await asyncio.sleep(0.005)
        return "done"

    with working(app) as worker:
        broken = breaks.enqueue()
        until(lambda: broken.job().failures == 1)
        assert "event loop" in broken.job().errors[-1]["error"]
        assert other.enqueue().result(timeout=60) == "done"
        assert worker.healthy


def test_a_blocked_loop_is_red_and_other_jobs_get_another(app, monkeypatch):
    monkeypatch.setattr("stanchion.worker.running.loop.SILENT", 0.2)
    let_go, beside_begun, let_beside_go = (threading.Event() for _ in range(3))

    @app.task
    async def blocks() -> str:
        let_go.wait(60)
        return "done"

    @app.task
    async def other() -> str:
        await asyncio.sleep(0.005)
        return "done"

    @app.task(max_attempts=1)
    async def beside() -> str:
        beside_begun.set()
        while not let_beside_go.is_set():
            await asyncio.sleep(0.005)
        return "done"

    with working(app, health_port=0, heartbeat=0.3) as worker:
        held_up = beside.enqueue()
        assert beside_begun.wait(60)
        blocked = blocks.enqueue()
        until(lambda: health(worker)[0] == 503)
        assert f"blocked by job {blocked.id}" in health(worker)[1]["reason"]
        assert other.enqueue().result(timeout=60) == "done"
        let_beside_go.set()
        assert held_up.result(timeout=60) == "done"
        let_go.set()
        assert blocked.result(timeout=60) == "done"
        until(lambda: health(worker)[0] == 200)
