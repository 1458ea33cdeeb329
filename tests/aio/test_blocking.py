"""Calls that block a running event loop are reported, once for each method, with their twins."""

import asyncio
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stanchion import Push, Stanchion, Worker, chain, group
from stanchion.core.concurrency.blocking import _bridged, on_running_loop
from stanchion.core.values.plain import is_path, is_uuid
from stanchion.middleware.log_context import _span

STANCHION = "stanchion"


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "blocks the running event loop" in record.getMessage()]


def on_a_loop(call: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return call()

    return asyncio.run(run())


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


def test_a_call_is_reported_with_its_place_and_its_twin(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    queue = app.queue("orders")
    on_a_loop(lambda: queue.push(1))
    (message,) = warned(caplog)
    assert message.startswith(f"Queue.push at {__file__}:")
    assert "use `apush()`" in message
    assert "warn_blocking=False" in message
    assert caplog.records[-1].name == STANCHION


def test_each_method_is_reported_once(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    queue = app.queue("orders")
    on_a_loop(lambda: [queue.push(1), queue.push(2), app.queue("mail").push(3), queue.size()])
    on_a_loop(lambda: queue.push(4))
    assert [message.split()[0] for message in warned(caplog)] == ["Queue.push", "Queue.size"]
    on_a_loop(lambda: Stanchion("memory://").queue("orders").push(1))
    assert len(warned(caplog)) == 3  # another app


def test_off_a_loop_nothing_is_reported(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    queue = app.queue("orders")

    async def run() -> None:
        await asyncio.to_thread(queue.push, 1)
        await queue.apush(2)
        async with queue.batch(2) as jobs:
            assert len(jobs) == 2
        assert not await queue.auntil_due(0)
        async with app.consumer("one"):
            pass
        call = app.task(name="f")(lambda number: number).s(1)
        flow = await group(Push(1, queue="mail"), call).aenqueue()
        assert len([member async for member in flow]) == 2

    asyncio.run(run())
    queue.push(3)
    assert warned(caplog) == []


def test_the_setting_turns_it_off(caplog: pytest.LogCaptureFixture) -> None:
    app = Stanchion("memory://", warn_blocking=False)
    on_a_loop(lambda: app.queue("orders").push(1))
    assert warned(caplog) == []


@pytest.mark.parametrize(
    ("method", "instead", "call"),
    [
        ("Task.enqueue", "aenqueue()", lambda app: app.tasks["f"].enqueue(1)),
        ("Enqueuer.enqueue", "aenqueue()", lambda app: app.tasks["f"].using(priority=1).enqueue(1)),
        ("JobHandle.state", "aget_state()", lambda app: app.waiting.state),
        ("JobHandle.result", "aresult()", lambda app: app.done.result(timeout=60)),
        ("FlowHandle.result", "aresult()", lambda app: app.flow_done.result(timeout=60)),
        ("FlowHandle.members", "amembers()", lambda app: list(app.flow_done.members())),
        ("FlowHandle.__iter__", "async for", lambda app: list(app.flow_done)),
        ("Chain.enqueue", "aenqueue()", lambda app: chain(app.tasks["f"].s(1)).enqueue()),
        ("Queue.until_due", "auntil_due()", lambda app: app.queue("orders").until_due(0)),
        ("Queue.reserve", "areserve()", lambda app: app.queue("orders").reserve()),
        ("Queue.settings", "aget_settings()", lambda app: app.queue("orders").settings),
        ("Batch.__enter__", "async with", lambda app: app.queue("orders").batch().__enter__()),
        ("Consumer.__enter__", "async with", lambda app: app.consumer("one").__enter__()),
        ("Reservation.commit", "acommit()", lambda app: app.held.commit()),
        ("Reservation.report_progress", "areport_progress()", lambda app: app.held.progress(0.5)),
        ("Reservation.__exit__", "async with", lambda app: app.held.__enter__().__exit__(None, None, None)),
        ("Stanchion.find", "afind()", lambda app: app.find(state="dead")),
        ("Stanchion.schedules", "aschedules()", lambda app: app.schedules()),
        ("Topic.push", "apush()", lambda app: app.topic("sales").push(1)),
        ("Feed.__next__", "async for", lambda app: next(app.feed)),
        ("Feed.next", "anext()", lambda app: app.feed.next(0)),
        ("Pipeline.push", "apush()", lambda app: app.etl.push(1)),
        ("Semaphore.capacity", "aget_capacity()", lambda app: app.semaphore("smtp", 2).capacity),
    ],
)
def test_the_public_call_is_named(
    app: Any, caplog: pytest.LogCaptureFixture, method: str, instead: str, call: Callable[[Any], Any]
) -> None:
    f = app.task(name="f", queue="work")(lambda number: number)
    app.etl = app.pipeline("etl")
    app.etl.station("raw")(lambda item: item)
    app.done, app.flow_done = f.enqueue(1), group(f.s(2)).enqueue()
    app.drain(["work"])
    app.waiting = f.enqueue(3)
    app.queue("held").push(1)
    (app.held,) = app.queue("held").reserve()
    app.feed = app.watch()
    app.feed.next(0)
    app.queue("orders").push(1)
    on_a_loop(lambda: call(app))
    messages = warned(caplog)
    assert [message.split()[0] for message in messages] == [method]
    assert instead in messages[0]


def test_an_async_task_is_warned_and_the_worker_is_not(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="push")
    async def push() -> None:
        app.queue("orders").push(1)

    @app.task(name="quiet")
    async def quiet() -> None:
        await app.queue("orders").apush(2)

    quiet.enqueue()
    Worker(app, threads=2, until_empty=True).run()
    assert warned(caplog) == []
    push.enqueue()
    Worker(app, threads=2, until_empty=True).run()
    assert [message.split()[0] for message in warned(caplog)] == ["Queue.push"]


def test_a_cell_of_a_notebook_is_not_reported(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    cell: dict[str, Any] = {"__name__": "IPython.core.interactiveshell"}
    exec("async def run_code(call):\n    return call()", cell)  # noqa: S102
    asyncio.run(cell["run_code"](lambda: app.queue("orders").push(1)))
    assert warned(caplog) == []

    async def within() -> None:
        app.queue("orders").push(2)

    exec("async def run_code(call):\n    return await call()", cell)  # noqa: S102
    asyncio.run(cell["run_code"](within))
    assert len(warned(caplog)) == 1


def test_the_bridge_of_sqlalchemy_is_no_blocking_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    greenlet = pytest.importorskip("greenlet")
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    on_a_loop(lambda: greenlet.greenlet(app.queue("orders").push).switch(1))
    assert warned(caplog) == []
    assert app.queue("orders").size().ready == 1


def test_it_is_kept_by_a_pickled_app(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    app = pickle.loads(pickle.dumps(Stanchion(f"sqlite:///{tmp_path}/jobs.db", warn_blocking=False)))  # noqa: S301
    on_a_loop(lambda: app.queue("orders").push(1))
    assert warned(caplog) == []


@pytest.mark.parametrize("name", ["asyncio.events", "greenlet", "opentelemetry.trace", "pathlib", "uuid"])
def test_a_module_that_is_imported_meanwhile(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Another thread may have begun to import it: it is there, and empty."""
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert not on_running_loop() or name != "asyncio.events"
    assert not _bridged() or name != "greenlet"
    assert (_span(), is_path(str), is_uuid(str)) == ({}, False, False)
