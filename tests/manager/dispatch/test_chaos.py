"""Many faults at random: slices move, engines stop, streams are cut, replies are lost; each job is done once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from stanchion.stores.records.jobs import JobState
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import LEASE, Scene, SceneEngine, fail, jobs, lose_reply, slice_of
from tests.manager.dispatch.virtual import now, run, until

JOBS = 400
SECONDS = 40.0


class Chaos:
    """Three engines, of which one owns the queue, and three receivers with streams to all."""

    def __init__(self, scene: Scene, engines: list[SceneEngine], chance: random.Random) -> None:
        self.scene, self.engines, self.chance = scene, engines, chance
        self.processes = [Process(8, work=chance.choice([0.01, 0.3, 2.0]), pipe=0.001) for _ in range(3)]
        self.epoch, self.owner = 0, engines[0]
        self.pushed: set[str] = set()
        for process in self.processes:
            for engine in engines:
                process.connect(engine)

    async def hand_over(self) -> None:
        """Another engine becomes the owner: by release, or as the session of the former one is lost."""
        if self.epoch:
            owned = slice_of(self.epoch)
            if self.chance.random() < 0.5:
                self.owner.lose()
            else:
                await self.owner.release([owned])
        self.epoch += 1
        self.owner = self.chance.choice(self.engines)
        await self.owner.take([slice_of(self.epoch)])

    async def cut(self) -> None:
        """A stream is cut, and opened again after a time that may be longer than the grace."""
        process = self.chance.choice(self.processes)
        stream = self.chance.choice([one for one in process.streams if one.open] or process.streams[-1:])
        process.cut(stream)
        await asyncio.sleep(self.chance.uniform(0, 4))
        if not any(one.open and one.engine is stream.engine for one in process.streams):
            process.connect(stream.engine)

    async def slow_pipe(self) -> None:
        """What is sent now arrives late."""
        process = self.chance.choice(self.processes)
        process.pipe = self.chance.uniform(0.1, 2 * LEASE)
        await asyncio.sleep(0.5)
        process.pipe = 0.001

    async def fault(self) -> None:
        """A call fails, or its reply is lost."""
        verb = self.chance.choice(["claim", "push", "settle", "select", "stats"])
        self.scene.store.next(
            verb, *[self.chance.choice([fail, lose_reply]) for _ in range(self.chance.randrange(1, 4))]
        )

    async def hold(self) -> None:
        """A reply comes late."""
        held = self.scene.store.hold_reply(self.chance.choice(["claim", "push", "settle"]))
        await asyncio.sleep(self.chance.uniform(0, 3))
        held.set()

    async def produce(self) -> None:
        """Push through any engine."""
        while len(self.pushed) < JOBS:
            some = jobs(self.chance.randrange(1, 8))
            self.pushed.update(job.id for job in some)
            await self.chance.choice(self.engines).push(some)
            await asyncio.sleep(self.chance.uniform(0, 0.5))

    async def events(self) -> None:
        """Do something all the time."""
        end = now() + SECONDS
        steps: list[Callable[[], Any]] = [self.hand_over, self.cut, self.slow_pipe, self.fault, self.hold]
        under_way = []
        while now() < end:
            step = self.chance.choice(steps)
            if step == self.hand_over:
                await step()
            else:
                under_way.append(asyncio.ensure_future(step()))
            await asyncio.sleep(self.chance.uniform(0, 1.5))
        await asyncio.gather(*under_way)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(8, 20))])
def test_each_job_is_done_once(seed: int) -> None:
    async def go() -> None:
        scene = Scene()
        async with AsyncExitStack() as stack:
            engines = [await stack.enter_async_context(scene.engine(owns=False)) for _ in range(3)]
            chaos = Chaos(scene, engines, random.Random(seed))
            await chaos.hand_over()
            await asyncio.gather(chaos.produce(), chaos.events())
            scene.store.scripts.clear()
            await until(lambda: scene.done(len(chaos.pushed)), 300)
            assert scene.states() == {JobState.DONE: len(chaos.pushed)}
            began = Counter(job for process in chaos.processes for job in process.began)
            assert set(began) == chaos.pushed
            again = {job for job, times in began.items() if times > 1}
            # The jobs of a receiver that was cut for longer than the grace may run again; that counts as an attempt.
            assert {job for job in again if scene.row(job).attempts == 1} == set()

    run(go())
