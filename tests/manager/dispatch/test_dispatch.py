"""Jobs go from producers and the store to receivers, and their outcomes into the store."""

from __future__ import annotations

from stanchion.stores.records.jobs import JobState
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import QUEUE, Scene, jobs
from tests.manager.dispatch.virtual import now, run, until


def test_a_backlog_runs_once_each() -> None:
    async def go() -> None:
        scene = Scene()
        scene.store.inner.push(jobs(300))
        async with scene.engine() as engine:
            process = Process(20)
            process.connect(engine)
            await until(lambda: scene.done(300))
            assert len(process.began) == len(set(process.began)) == 300
            await until(lambda: not process.unconfirmed)
            print(engine.status(), scene.store.calls)

    run(go())


def test_a_push_starts_at_once_with_one_statement() -> None:
    async def go() -> None:
        scene = Scene()
        async with scene.engine() as engine:
            process = Process(20, work=None)
            process.connect(engine)
            await until(lambda: QUEUE in engine._slices.windows and engine._slices.windows[QUEUE].loaded)
            before = scene.store.calls.copy()
            begin = now()
            (pushed,) = await engine.push(jobs(1))
            assert pushed.token
            assert now() - begin < 0.0025
            await until(lambda: process.began)
            assert scene.row(pushed.id).state == JobState.RUNNING
            print(scene.store.calls - before)

    run(go())
