"""Jobs that are due soon are made ready ahead of their time, and reserved at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stanchion.manager.dispatch import claims
from stanchion.manager.dispatch.delays import Delays
from stanchion.stores.records.jobs import SECOND
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import LEASE, Scene, jobs
from tests.manager.dispatch.virtual import VirtualLoop, run, until

AHEAD = Delays(lease=LEASE, ahead=0.01)


@pytest.fixture(autouse=True)
def virtual_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread that sleeps be one in virtual time."""

    def sleep(seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.jump.now += seconds

    monkeypatch.setattr(claims, "sleep", sleep)


def watched(scene: Scene, calls: list[int]) -> Callable[[Callable[[], Any]], Any]:
    """Return a script that notes when a call is made."""

    def script(make: Callable[[], Any]) -> Any:
        calls.append(scene.store.inner.now())
        return make()

    return script


def test_the_call_waits_for_the_due_time_in_its_thread() -> None:
    async def go() -> None:
        scene, calls = Scene(latency=0.006, delays=AHEAD), list[int]()
        async with scene.engine() as engine:
            process = Process(work=None)
            process.connect(engine)
            await asyncio.sleep(1.0)  # until its windows are read
            (pushed,) = await engine.push(jobs(1, delay=7.3456))
            scene.store.next("claim", watched(scene, calls))
            await until(lambda: process.began)
            assert 0 <= calls[0] - pushed.run_at < 0.001 * SECOND  # not later by the way to the thread
            assert scene.store.calls["claim"] == 1

    run(go())


def test_a_job_that_is_due_does_not_wait_for_one_that_will_be() -> None:
    async def go() -> None:
        scene, calls = Scene(latency=0.006, delays=AHEAD), list[int]()
        async with scene.engine() as engine:
            await asyncio.sleep(1.0)
            ready, soon = await engine.push([*jobs(1), *jobs(1, delay=1.008)])
            process = Process(work=None)
            scene.store.next("claim", watched(scene, calls), watched(scene, calls))
            await asyncio.sleep((soon.run_at - scene.store.inner.now()) / SECOND - 0.009)
            process.connect(engine)
            await until(lambda: len(process.began) == 2)
            assert calls[0] < soon.run_at <= calls[1]
            assert process.began == [ready.id, soon.id]

    run(go())
