"""Workers that are told to stop under load."""

from __future__ import annotations

import signal

import pytest

from stanchion.stores.records.jobs import QUEUED, JobState
from tests.crash.scene import TIMEOUT_SECONDS, Scene

pytestmark = pytest.mark.slow

MARGIN = 30.0
"""Seconds beyond its grace in which a worker must be gone."""


@pytest.mark.nightly_except("sqlite")
def test_finishes_what_runs_and_gives_back_the_rest(scene: Scene) -> None:
    scene.push(400, 0.1)
    worker = scene.worker("--grace", "10s")
    scene.seen("started", worker, 20)
    scene.end(worker, seconds=MARGIN)
    rows = scene.trial().rows
    assert {(row.state, row.attempts) for row in rows} == {(JobState.DONE, 1), (QUEUED, 0)}
    assert scene.store.workers() == []
    scene.verify(drained=False)


@pytest.mark.nightly_except("postgresql")
@pytest.mark.parametrize(("grace", "signals"), [(1, 1), (60, 2)], ids=["grace over", "second signal"])
def test_gives_back_unharmed_what_does_not_finish(scene: Scene, grace: int, signals: int) -> None:
    scene.push(8, 60.0)
    worker = scene.worker("--grace", f"{grace}s")
    scene.seen("started", worker, 4)
    for _ in range(signals):
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        scene.wait(lambda: "reserved jobs get" in scene.log, TIMEOUT_SECONDS, "the first signal to be heard")
    assert worker.wait(MARGIN) == 0
    assert {(row.state, row.attempts) for row in scene.trial().rows} == {(QUEUED, 0)}
    scene.verify(drained=False)
