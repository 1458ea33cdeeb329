"""One mixed load on each database, while all that can die does, or all that can fail.

What each death and each fault does by itself, in greater numbers, the other files here try; they belong to the night.
"""

from __future__ import annotations

import random
import signal
import time
from typing import Any

import pytest

from tests.crash.benches import Bench
from tests.crash.deaths import finish, freeze, producers_die, workers_die
from tests.crash.journal import LOST, What
from tests.crash.loads import Flow, Load, OrderKeys, Semaphores
from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS, Process, Scene
from tests.servers.proxy import TcpProxy

pytestmark = pytest.mark.slow

IN_PYTHON = ("mariadb", "redis", "mongodb")
"""The databases whose drivers are written in Python, and can thus be cut between two messages."""


@pytest.mark.nightly
def test_workers_and_producers_die_and_stall(scene: Scene, request: pytest.FixtureRequest) -> None:
    loads: list[Load] = [Semaphores(scene, 40), OrderKeys(scene, 15), Flow(scene, 80, 20)]
    scene.push(150, 0.01)
    fates = [f"before message {random.randint(10, 200)}"] if request.node.callspec.params["scene"] in IN_PYTHON else []
    workers_die(scene, *fates)
    stalled = scene.worker()
    running = freeze(scene, stalled, 2.0)
    producers_die(scene)
    workers_die(scene)
    finish(scene)
    stalled.send_signal(signal.SIGCONT)
    scene.wait(lambda: refused(scene, stalled) >= running, TIMEOUT_SECONDS, "late outcomes refused")
    later = scene.push(20)
    scene.drained()
    scene.end(stalled)
    scene.verify()
    for load in loads:
        load.judge()
    assert {event.job for event in scene.events("started", of=stalled)} >= set(later)


def refused(scene: Scene, worker: Process) -> set[str]:
    """Return the jobs whose outcomes were refused to a worker."""
    kinds: tuple[What, ...] = ("told commit", "told refund")
    return {event.job for event in scene.events(*kinds, of=worker) if event.detail == LOST}


@pytest.mark.nightly_except("redis")
def test_connections_networks_and_servers_fail(own_bench: Bench[Any]) -> None:
    scene = own_bench.scene
    loads: list[Load] = [Semaphores(scene, 40), OrderKeys(scene, 15)]
    with TcpProxy("127.0.0.1", own_bench.port) as proxy:
        behind = own_bench.through(proxy.port)
        workers = [scene.worker(heartbeat=10.0, url=url) for url in (behind, None)]
        producers = [
            scene.producer(Pushing(seconds=0.01, repeats=repeats), url=url)
            for repeats, url in ((True, behind), (False, None))
        ]
        scene.advances(50, "before")
        for _ in range(5):
            own_bench.end_connections()
            time.sleep(random.uniform(0, 0.4))
        for cut, seconds in ((proxy.drop, 0.5), (proxy.black_hole, 2.0), (proxy.reset, 0.0)):
            scene.advances(30, f"before the network fails: {cut.__name__}")
            cut()
            time.sleep(seconds)
            proxy.pass_through()
        for name, restart in own_bench.restarts().items():
            scene.advances(30, f"before the server fails: {name}")
            restart()
        scene.advances(50, "after all that")
        for producer in producers:
            scene.seen("told push", producer)
        scene.end(*producers)
        scene.drained()
        scene.delay()
        own_bench.end_listeners()
        scene.delay()
        scene.end(*workers, seconds=TIMEOUT_SECONDS)
    scene.verify()
    for load in loads:
        load.judge()
