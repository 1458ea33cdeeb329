"""A worker that stalls for longer than three heartbeats, and comes back."""

from __future__ import annotations

import signal

import pytest

from tests.crash.deaths import freeze
from tests.crash.journal import LOST
from tests.crash.scene import TIMEOUT_SECONDS, Scene

pytestmark = pytest.mark.nightly


def test_another_runs_its_jobs_and_it_goes_on_afterwards(scene: Scene) -> None:
    stalled = scene.worker()
    running = freeze(scene, stalled, 6.0)
    other = scene.worker()

    def started() -> set[str]:
        return {event.job for event in scene.events("started", of=other)}

    def refused() -> set[str]:
        return {event.job for event in scene.events("told commit", of=stalled) if event.detail == LOST}

    scene.wait(lambda: started() >= running, TIMEOUT_SECONDS, "its jobs to start elsewhere")
    stalled.send_signal(signal.SIGCONT)  # while the other runs them
    scene.wait(lambda: refused() >= running, TIMEOUT_SECONDS, "late outcomes refused")
    scene.drained()
    scene.end(other)
    later = set(scene.push(40))
    scene.drained()
    assert later <= {event.job for event in scene.events("started", of=stalled)}
    scene.end(stalled)
    scene.verify()


def test_it_begins_no_job_of_its_buffer_that_another_has_run(scene: Scene) -> None:
    stalled = scene.worker()
    scene.push(2000)  # quick jobs, so that it claims ahead
    freeze(scene, stalled, 6.0)
    before = {event.job for event in scene.events("started", of=stalled)}
    other = scene.worker()
    scene.drained()
    stalled.send_signal(signal.SIGCONT)
    last = set(scene.push(200))
    scene.drained()
    scene.end(other)
    scene.end(stalled)
    elsewhere = {event.job for event in scene.events("started", of=other)}
    later = {event.job for event in scene.events("started", of=stalled)} - before
    assert later <= last
    assert not later & elsewhere
    scene.verify()
