"""In which order a receiver gets the jobs of its queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stanchion.stores.rules.capacity.limits import Limits, limits_text
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import Scene, SceneEngine, jobs, slice_of
from tests.manager.dispatch.virtual import run, until

A, B, C = "a", "b", "c"


class Orders:
    """An engine that has three queues."""

    def __init__(self, scene: Scene, engine: SceneEngine) -> None:
        self.scene, self.engine = scene, engine
        self.names: dict[str, str] = {}

    def store(self, queue: str, *priorities: int, **fields: Any) -> None:
        """Store jobs, in the database itself."""
        for priority in priorities:
            (job,) = jobs(1, queue=queue, priority=priority, **fields)
            self.scene.store.inner.push([job])
            self.names[job.id] = f"{queue} {priority}"
        self.engine._signed(None)

    async def ran(self, process: Process, number: int) -> list[str]:
        """Wait until a receiver has begun so many jobs; return which."""
        await until(lambda: len(process.began) >= number)
        return [self.names[job] for job in process.began]


@asynccontextmanager
async def orders() -> AsyncIterator[Orders]:
    scene = Scene()
    async with scene.engine(owns=False) as engine:
        await engine.take([slice_of(1, queue) for queue in (A, B, C)])
        yield Orders(scene, engine)


def receiver(order: str, queues: Sequence[str] = (A, B, C), capacity: int = 1, **options: Any) -> Process:
    return Process(capacity, queues=queues, order=order, work=0.01, **options)


class TestPriority:
    def test_the_highest_of_all_first(self) -> None:
        async def go() -> None:
            async with orders() as one:
                one.store(A, 9, 5, 1)
                one.store(B, 8, 5, 2)
                one.store(C, 7, 6, 0)
                await asyncio.sleep(0.1)
                (process := receiver("priority")).connect(one.engine)
                ran = await one.ran(process, 9)
                assert [name.split()[1] for name in ran] == list("987655210")

        run(go())

    def test_a_claim_of_many_takes_only_those_before_the_next_of_others(self) -> None:
        async def go() -> None:
            async with orders() as one:
                one.store(A, 60, *[0] * 40)
                one.store(B, *[50] * 20)
                await asyncio.sleep(0.1)
                (process := receiver("priority", capacity=21)).connect(one.engine)
                ran = await one.ran(process, 61)
                assert ran[:21] == ["a 60", *["b 50"] * 20]

        run(go())

    def test_equal_ones_go_in_turn(self) -> None:
        async def go() -> None:
            async with orders() as one:
                one.store(A, *[0] * 4)
                one.store(B, *[0] * 4)
                await asyncio.sleep(0.1)
                (process := receiver("priority")).connect(one.engine)
                ran = await one.ran(process, 8)
                assert set(ran[:2]) == set(ran[2:4]) == set(ran[4:6]) == {"a 0", "b 0"}

        run(go())

    def test_a_push_does_not_overtake_better_jobs_of_other_queues(self) -> None:
        async def go() -> None:
            async with orders() as one:
                (process := receiver("priority")).connect(one.engine)
                held = one.scene.store.hold_reply("claim")  # the first job is being reserved; the second waits
                one.store(A, 5, 4)
                await until(lambda: one.scene.store.hold is not None or one.scene.store.calls["claim"])
                process.capacity = 2
                (worse,) = jobs(1, queue=B, priority=1)
                one.names[worse.id] = "b 1"
                pushing = asyncio.create_task(one.engine.push([worse]))
                await asyncio.sleep(0.05)
                held.set()
                await pushing
                assert await one.ran(process, 3) == ["a 5", "a 4", "b 1"]

        run(go())

    @pytest.mark.parametrize("order", ["priority", "strict"])
    def test_a_queue_that_may_not_run_holds_up_no_other(self, order: str) -> None:
        async def go() -> None:
            async with orders() as one:
                one.scene.store.inner.configure(A, {"paused": True})
                one.store(A, 100, 100)
                one.store(B, *[0] * 5)
                (process := receiver(order)).connect(one.engine)
                assert await one.ran(process, 5) == ["b 0"] * 5
                one.scene.store.inner.configure(A, {"paused": False})
                one.engine._signed([A])
                assert (await one.ran(process, 7))[5:] == ["a 100"] * 2

        run(go())

    def test_jobs_that_wait_for_a_slot_let_no_worse_ones_of_other_queues_go_before_their_queue(self) -> None:
        async def go() -> None:
            async with orders() as one:
                one.scene.store.inner.set_semaphore("none", 0)
                for queue, priority in ((A, 49), (B, 50), (B, 0), (A, -1)):
                    one.store(queue, priority)
                one.store(A, *[100] * 20, limits=limits_text(Limits(("none",), None)))
                await asyncio.sleep(0.1)
                (process := receiver("priority")).connect(one.engine)
                assert await one.ran(process, 4) == ["b 50", "a 49", "b 0", "a -1"]

        run(go())

    @pytest.mark.parametrize("order", ["priority", "strict"])
    def test_lanes_that_it_does_not_serve_hold_up_nothing(self, order: str) -> None:
        async def go() -> None:
            async with orders() as one:
                one.store(A, 100, lane=7)
                one.store(A, 50, lane=2)
                one.store(B, 10)
                await asyncio.sleep(0.1)
                (process := receiver(order, lanes={A: (0, 3)})).connect(one.engine)
                assert await one.ran(process, 2) == ["a 50", "b 10"]

        run(go())


class TestOthers:
    def test_strictly_as_named(self) -> None:
        async def go() -> None:
            async with orders() as one:
                one.store(A, 100, 100)
                one.store(B, -100, -100)
                one.store(C, 0)
                await asyncio.sleep(0.1)
                (process := receiver("strict", (C, B, A))).connect(one.engine)
                assert await one.ran(process, 5) == ["c 0", "b -100", "b -100", "a 100", "a 100"]

        run(go())

    def test_in_turn_whatever_the_priority(self) -> None:
        async def go() -> None:
            async with orders() as one:
                one.store(A, *[100] * 3)
                one.store(B, *[-100] * 3)
                await asyncio.sleep(0.1)
                (process := receiver("fair", (A, B))).connect(one.engine)
                ran = await one.ran(process, 6)
                assert set(ran[:2]) == set(ran[2:4]) == {"a 100", "b -100"}

        run(go())

    def test_receivers_of_each_order_are_served_beside_one_another(self) -> None:
        async def go() -> None:
            async with orders() as one:
                one.store(A, *[1] * 50)
                one.store(B, *[2] * 50)
                await asyncio.sleep(0.1)
                several = [receiver("strict", (A, B)), receiver("priority", (A, B))]
                for process in several:
                    process.connect(one.engine)
                strict, priority = [(await one.ran(process, 10))[:10] for process in several]
                assert (strict, priority) == (["a 1"] * 10, ["b 2"] * 10)

        run(go())


def test_partitions_of_a_queue_go_in_turn_before_the_next_queue() -> None:
    """`strict` puts queues in order, not the partitions of one."""

    async def go() -> None:
        scene = Scene()
        async with scene.engine(owns=False) as engine:
            queues = ("orders#0", "orders#1", "mail")
            await engine.take([slice_of(1, queue) for queue in queues])
            one = Orders(scene, engine)
            one.store("mail", 0, 0)
            for queue in queues[:2]:
                one.store(queue, 0, 0, 0)
            await asyncio.sleep(0.1)
            process = receiver("strict", queues)
            process.connect(engine)
            ran = [name.split()[0] for name in await one.ran(process, 8)]
            assert set(ran[:2]) == {"orders#0", "orders#1"}
            assert ran[6:] == ["mail", "mail"]

    run(go())
