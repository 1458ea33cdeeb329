"""Workers and producers behind a network that drops, resets and swallows their connections."""

from __future__ import annotations

import signal
import time

import pytest
from sqlalchemy.engine import make_url

from tests.crash.journal import UNAVAILABLE
from tests.crash.producer import Pushing
from tests.crash.scene import Scene
from tests.servers.proxy import TcpProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CALL = 10.0
"""Seconds after which a call to the store gives up."""


@pytest.fixture
def url(pg_scene: Scene, pg_proxy: TcpProxy) -> str:
    """The way to the scene's database through the proxy."""
    return make_url(pg_scene.url).set(port=pg_proxy.port).render_as_string(hide_password=False)


def test_work_goes_on_after_every_cut(pg_scene: Scene, pg_proxy: TcpProxy, url: str) -> None:
    scene = pg_scene
    workers = [scene.worker(url=url, heartbeat=10.0), scene.worker(url=url, heartbeat=10.0)]
    producers = [scene.producer(Pushing(seconds=0.01, repeats=repeats), url=url) for repeats in (True, False)]
    for number in range(3):
        for cut, seconds in ((pg_proxy.drop, 0.5), (pg_proxy.black_hole, 2.0), (pg_proxy.reset, 0.0)):
            scene.advances(30, 30, f"in round {number}, before: {cut.__name__}")
            cut()
            time.sleep(seconds)
            pg_proxy.pass_through()
    scene.advances(30, 30, "after the last cut")
    scene.end(*producers)
    scene.drained(30)
    scene.end(*workers)
    scene.verify()


def test_jobs_pushed_during_a_long_silence_run_after_it(pg_scene: Scene, pg_proxy: TcpProxy, url: str) -> None:
    scene = pg_scene
    worker = scene.worker(url=url, heartbeat=10.0)
    scene.push(10)
    scene.drained(30)
    pg_proxy.black_hole()
    time.sleep(1)
    scene.push(50)
    time.sleep(CALL + 2)
    pg_proxy.pass_through()
    scene.drained(15)
    scene.end(worker)
    scene.verify()


def test_outcomes_whose_answer_was_lost_are_known_afterwards(pg_scene: Scene, pg_proxy: TcpProxy, url: str) -> None:
    scene = pg_scene
    jobs = scene.push(200, 0.05)
    worker = scene.worker(url=url, heartbeat=10.0)
    scene.seen("started", worker, 50)
    pg_proxy.black_hole()
    time.sleep(CALL + 2)
    pg_proxy.pass_through()
    scene.drained(30)
    scene.end(worker)
    scene.verify()
    assert UNAVAILABLE in {event.detail for event in scene.events("told commit")}
    assert {event.job for event in scene.events("succeeded")} == set(jobs)


def test_stops_in_time_while_the_store_is_silent(pg_scene: Scene, pg_proxy: TcpProxy, url: str) -> None:
    scene = pg_scene
    scene.push(40, 0.5)
    worker = scene.worker("--grace", "2s", url=url)
    scene.seen("started", worker, 8)
    pg_proxy.black_hole()
    time.sleep(0.5)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(2 + 12) == 0
    pg_proxy.pass_through()
    heir = scene.worker()
    scene.drained(30)
    scene.end(heir)
    scene.verify()
