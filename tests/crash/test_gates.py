"""Semaphores, order keys and flows while the workers that run their jobs are killed."""

from __future__ import annotations

import pytest

from tests.crash.deaths import finish, workers_die
from tests.crash.loads import Flow, Load, OrderKeys, Semaphores
from tests.crash.scene import Scene

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("kind", [Semaphores, OrderKeys, Flow])
def test_it_holds_while_workers_die(scene: Scene, kind: type[Load]) -> None:
    load = kind(scene)  # type: ignore[call-arg]  # a protocol says nothing of how one is made
    scene.push(100, 0.01)
    for _ in range(2):
        workers_die(scene)
    finish(scene)
    scene.verify()
    load.judge()
