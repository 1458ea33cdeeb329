"""A worker that stalls for longer than three heartbeats, and comes back."""

from __future__ import annotations

import signal

import pytest

from tests.crash.deaths import freeze
from tests.crash.journal import LOST
from tests.crash.scene import PATIENCE, Scene

pytestmark = pytest.mark.nightly


def test_another_runs_its_jobs_and_it_goes_on_afterwards(scene: Scene) -> None:
    scene.push(4, 6.0)
    stalled = scene.worker()
    in_hand = {event.job for event in scene.seen("started", stalled, 4)}
    freeze(scene, stalled)
    other = scene.worker()
    assert {event.job for event in scene.seen("started", other, 4)} == in_hand

    def refused() -> set[str]:
        return {event.job for event in scene.events("told commit", of=stalled) if event.detail == LOST}

    stalled.send_signal(signal.SIGCONT)  # while the other runs them
    scene.wait(lambda: refused() == in_hand, PATIENCE, "late outcomes refused")
    scene.drained()
    scene.end(other)
    later = set(scene.push(40))
    scene.drained()
    assert later <= {event.job for event in scene.events("started", of=stalled)}
    scene.end(stalled)
    scene.verify()
