"""Workers and producers that are killed, or kill themselves, at any moment."""

from __future__ import annotations

import random
import time

import pytest

from tests.crash.deaths import WORKER_FATES, producers_die
from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS, Scene

pytestmark = pytest.mark.slow

LAST_WORDS = 2.0
"""Seconds in which a server carries out what a killed client had asked of it."""


@pytest.mark.nightly
def test_workers_killed_between_claim_run_and_commit(scene: Scene) -> None:
    scene.push(2000, 0.01)
    for _ in range(3):
        doomed = [scene.worker(fate=f"{kind} {random.randint(2, 20)}") for kind in WORKER_FATES]
        victim = scene.worker()
        scene.seen("started", victim)
        time.sleep(random.uniform(0, 0.3))
        scene.kill(victim)
        assert [process.wait(TIMEOUT_SECONDS) for process in doomed] == [-9] * len(doomed)
    last = [scene.worker(), scene.worker()]
    scene.drained()
    scene.end(*last)
    scene.verify()
    assert scene.trial().counts.expired > 0


@pytest.mark.nightly
def test_producers_killed_around_their_pushes(scene: Scene) -> None:
    worker = scene.worker()
    for _ in range(2):
        producers_die(scene)
    time.sleep(LAST_WORDS)
    scene.drained()
    scene.end(worker)
    scene.verify()
    told = {event.job for event in scene.events("told push")}
    unanswered = {event.job for event in scene.events("asked push")} - told
    stored = {row.id for row in scene.trial().rows}
    assert unanswered & stored
    assert unanswered - stored


@pytest.mark.nightly
@pytest.mark.parametrize("scene", ["mariadb", "redis", "mongodb"], indirect=True)  # their drivers are Python
def test_processes_killed_between_two_messages(scene: Scene) -> None:
    scene.push(400, 0.005)
    for most in (40, 400):
        doomed = [scene.worker(fate=f"before message {random.randint(10, most)}") for _ in range(3)]
        doomed += [scene.producer(Pushing(pause=0.01), fate=f"before message {random.randint(4, 40)}")]
        assert [process.wait(TIMEOUT_SECONDS) for process in doomed] == [-9] * len(doomed)
    scene.push(20)
    last = scene.worker()
    scene.seen("started", last)
    scene.drained()
    scene.end(last)
    scene.verify()


@pytest.mark.nightly
def test_a_job_that_kills_its_process_ends_dead(scene: Scene) -> None:
    scene.push(50, 0.02)
    fatal = scene.push_fatal()
    scene.push(50, 0.02)
    supervisor = scene.worker("--processes", "2")
    scene.drained()
    scene.end(supervisor)
    scene.verify(doomed=[fatal])
    deaths = [event for event in scene.events("started") if event.job == fatal]
    attempts = [event.attempt for event in deaths]
    assert len({event.pid for event in deaths}) == len(deaths) <= 5  # the first two may not have been known to begin
    assert attempts == sorted(attempts)
    assert attempts[-1] == 3
