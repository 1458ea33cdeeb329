"""Many processes on one SQLite file."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from sqlalchemy.engine import make_url

from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene

pytestmark = pytest.mark.slow


@pytest.mark.nightly
def test_workers_and_producers_are_killed_in_turn(sqlite_scene: Scene) -> None:
    scene = sqlite_scene

    def producer() -> Process:
        return scene.producer(Pushing(seconds=0.005, pause=0.02))

    def worker() -> Process:
        return scene.worker(threads=2)

    starts: list[Callable[[], Process]] = [worker, worker, worker, producer, producer]
    living = [start() for start in starts]
    for number in range(10):
        scene.advances(20, f"before kill {number}")
        time.sleep(random.uniform(0, 0.2))
        place = number % len(living)
        scene.kill(living[place])
        living[place] = starts[place]()
    for each in living[3:]:
        scene.seen("told push", each)
    scene.end(*living[3:])
    scene.drained()
    for each in living[:3]:
        scene.seen("started", each)
    scene.end(*living[:3])
    scene.verify()


@pytest.mark.nightly
def test_a_writer_that_keeps_the_lock_for_seconds_breaks_nobody(sqlite_scene: Scene) -> None:
    scene = sqlite_scene
    scene.push(3000, 0.02)
    workers = [scene.worker(heartbeat=5.0), scene.worker(heartbeat=5.0)]
    producer = scene.producer(Pushing(batches=20))
    for process in workers:
        scene.seen("started", process)
    with closing(sqlite3.connect(make_url(scene.url).database or "", isolation_level=None, timeout=10)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        time.sleep(3)
        holder.execute("COMMIT")
    scene.advances(50, "after the lock was free")
    assert producer.wait(TIMEOUT_SECONDS) == 0
    scene.drained()
    scene.end(*workers)
    scene.verify()
    assert {row.attempts for row in scene.trial().rows} == {1}
