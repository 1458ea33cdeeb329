"""Connections that the server ends."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.crash.benches import Bench
from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS, until

pytestmark = pytest.mark.nightly

POLL = 0.5
LONGEST_POLL = POLL * 1.2
MARGIN = 10.0


def test_work_goes_on_while_all_connections_are_ended(bench: Bench[Any]) -> None:
    scene = bench.scene
    workers = [scene.worker(), scene.worker()]
    producers = [scene.producer(Pushing(seconds=0.01, repeats=repeats)) for repeats in (True, False)]
    scene.advances(50, "before")
    ended = 0
    for _ in range(20):
        ended += bench.end_connections()
        time.sleep(random.uniform(0, 0.4))
    assert ended > 20
    scene.advances(50, "afterwards")
    scene.end(*producers)
    scene.drained()
    scene.end(*workers)
    scene.verify()


def test_a_job_pushed_without_a_listener_starts_within_a_poll(bench: Bench[Any]) -> None:
    worker = bench.scene.worker()
    bench.scene.delay()
    for _ in range(5):
        until(bench.end_listeners, TIMEOUT_SECONDS, "a listener to end")
        assert bench.scene.delay() < LONGEST_POLL + MARGIN
    bench.scene.end(worker)
    bench.scene.verify()


@pytest.mark.parametrize("bench", ["postgresql", "redis", "mongodb"], indirect=True)  # those with a push signal
def test_wake_up_heals(bench: Bench[Any]) -> None:
    worker = bench.scene.worker("--poll", "30s")
    bench.scene.delay()
    for _ in range(3):
        until(bench.end_listeners, TIMEOUT_SECONDS, "a listener to end")
        assert bench.scene.delay() < 5 + MARGIN  # it may just have connected again, and be waking all
        assert bench.scene.delay() < MARGIN
    bench.scene.end(worker)
    bench.scene.verify()
