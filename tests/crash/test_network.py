"""Workers and producers behind a network that drops, resets and swallows their connections."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from tests.crash.benches import Bench
from tests.crash.journal import UNAVAILABLE
from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS
from tests.servers.proxy import TcpProxy

pytestmark = pytest.mark.nightly


def test_work_goes_on_after_every_cut(bench: Bench[Any], proxy: TcpProxy, url: str) -> None:
    scene = bench.scene
    workers = [scene.worker(url=url, heartbeat=10.0), scene.worker(url=url, heartbeat=10.0)]
    producers = [scene.producer(Pushing(seconds=0.01, repeats=repeats), url=url) for repeats in (True, False)]
    for number in range(3):
        for cut, seconds in ((proxy.drop, 0.5), (proxy.black_hole, 2.0), (proxy.reset, 0.0)):
            scene.advances(30, f"in round {number}, before: {cut.__name__}")
            cut()
            time.sleep(seconds)
            proxy.pass_through()
    scene.advances(30, "after the last cut")
    scene.end(*producers)
    scene.drained()
    scene.end(*workers)
    scene.verify()


def test_work_goes_on_after_a_silence_longer_than_any_call(bench: Bench[Any], proxy: TcpProxy, url: str) -> None:
    scene = bench.scene
    jobs = scene.push(600, 0.05)
    worker = scene.worker(url=url, heartbeat=10.0)
    scene.seen("started", worker, 50)
    proxy.black_hole()
    time.sleep(1)
    jobs += scene.push(50)
    scene.wait(
        lambda: [event for event in scene.events("told commit") if event.detail == UNAVAILABLE],
        TIMEOUT_SECONDS,
        "a commit that was given up",
    )
    proxy.pass_through()
    scene.drained()
    scene.end(worker)
    scene.verify()
    assert {event.job for event in scene.events("succeeded")} == set(jobs)


def test_stops_in_time_while_the_store_is_silent_and_leaves_nothing_locked(
    bench: Bench[Any], proxy: TcpProxy, url: str
) -> None:
    scene = bench.scene
    scene.push(4, 4.0)
    scene.push(1500)
    worker = scene.worker("--grace", "2s", url=url, threads=8)
    scene.seen("started", worker, 50)
    proxy.black_hole()  # the server does not learn of its end
    time.sleep(0.5)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(2 + 12) == 0
    heir = scene.worker()
    scene.drained()
    scene.end(heir)
    scene.verify()
