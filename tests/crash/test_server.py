"""A server that restarts, crashes and stays away under load."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.crash.benches import Bench
from tests.crash.journal import UNAVAILABLE, Event
from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene

pytestmark = pytest.mark.slow

OUTAGE = 12.0
"""Seconds, more than any call waits for the store."""

LONGEST_CALL = 60.0
"""Seconds after which a call that should have ended is seen as one that never ends."""


@pytest.mark.nightly
def test_work_resumes_after_every_restart(own_bench: Bench[Any]) -> None:
    scene = own_bench.scene
    workers = [scene.worker(), scene.worker()]
    producers = [scene.producer(Pushing(seconds=0.01)), scene.producer(Pushing(seconds=0.01, repeats=False))]

    for name, restart in own_bench.restarts().items():
        scene.advances(100, f"before the restart: {name}")
        restart()
    scene.advances(100, "after the last restart")
    scene.end(*producers)
    scene.drained()
    scene.end(*workers)
    scene.verify()


@pytest.mark.nightly
def test_running_jobs_outlive_an_outage_of_three_heartbeats(own_bench: Bench[Any]) -> None:
    scene = own_bench.scene
    scene.push(8, 6.0)
    workers = [scene.worker(heartbeat=1.0), scene.worker(heartbeat=1.0)]
    for worker in workers:
        scene.seen("started", worker, 4)
    own_bench.server.stop()
    time.sleep(4)
    own_bench.server.start()
    newcomer = scene.worker(heartbeat=0.1)  # it knows of no outage
    scene.wait(
        lambda: newcomer.pid in {row.pid for row in scene.store.workers()}, TIMEOUT_SECONDS, "the newcomer to come up"
    )
    scene.drained()
    scene.end(*workers, newcomer)
    scene.verify()
    assert {row.attempts for row in scene.trial().rows} == {1}


def unanswered(scene: Scene, producer: Process) -> list[Event]:
    """Return the pushes that had no answer in time."""
    return [event for event in scene.events("told push", of=producer) if event.detail == UNAVAILABLE]


@pytest.mark.nightly
def test_pushes_during_an_outage_are_stored_once_or_refused(own_bench: Bench[Any]) -> None:
    scene = own_bench.scene
    repeating, refusing = (scene.producer(Pushing(repeats=repeats)) for repeats in (True, False))
    worker = scene.worker()
    scene.advances(20, "before the outage")
    own_bench.server.stop()
    newcomer = scene.worker()
    time.sleep(OUTAGE)
    for producer in (repeating, refusing):
        scene.wait(lambda: unanswered(scene, producer), TIMEOUT_SECONDS, "a push without an answer")  # noqa: B023 - called here
    own_bench.server.start()
    scene.advances(100, "after the outage")
    scene.seen("started", newcomer)
    scene.end(repeating, refusing)
    scene.drained()
    scene.end(worker, newcomer)
    scene.verify()
    asked = {(event.pid, event.batch): event.at for event in reversed(scene.events("asked push"))}
    for producer in (repeating, refusing):
        assert all(event.at - asked[event.pid, event.batch] < LONGEST_CALL for event in unanswered(scene, producer))
