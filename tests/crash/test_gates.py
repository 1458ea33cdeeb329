"""Semaphores, order keys and flows while the workers that run their jobs are killed."""

from __future__ import annotations

import random
import time

import pytest

from stanchion.ids import new_id
from stanchion.stores.flows import Standing
from stanchion.stores.gates import Limits, limits_text, node_gate
from stanchion.stores.records import Node, NodeState
from tests.crash.producer import new_batch
from tests.crash.runs import first_starts, most_at_once, runs
from tests.crash.scene import PATIENCE, Scene

pytestmark = pytest.mark.slow

FATES = ("after claim", "before settle", "after settle")


def killed_in_turns(scene: Scene, rounds: int = 2) -> None:
    """Let workers die between their steps, and at any moment; then let one finish."""
    for _ in range(rounds):
        doomed = [scene.worker(fate=f"{kind} {random.randint(2, 12)}") for kind in FATES]
        victim = scene.worker()
        scene.wait(lambda: scene.events("started", of=victim) or idle(scene), PATIENCE, "its first job")  # noqa: B023
        time.sleep(random.uniform(0, 0.3))
        scene.kill(victim)
        scene.wait(lambda: idle(scene) or all(one.poll() is not None for one in doomed), PATIENCE, "their deaths")  # noqa: B023
        for process in doomed:  # where others have left it no work, one never meets its fate
            scene.kill(process)
    scene.push(20)
    last = scene.worker()
    scene.seen("started", last)
    scene.drained()
    scene.end(last)


def idle(scene: Scene) -> bool:
    """Tell whether there is nothing left to do."""
    return scene.sizes.total == 0


def test_semaphores_hold_and_nothing_is_stuck(scene: Scene) -> None:
    for name, capacity in (("narrow", 2), ("wide", 4)):
        scene.store.set_semaphore(name, capacity)
    narrow = scene.push(100, 0.01, limits=limits_text(Limits(("narrow",))))
    both = scene.push(100, 0.01, limits=limits_text(Limits(("wide", "narrow"))))
    wide = scene.push(100, 0.01, limits=limits_text(Limits(("wide",))))
    scene.push(100, 0.01)
    killed_in_turns(scene)
    scene.verify()
    events = scene.events("started", "asked commit", "asked refund", "asked rollback", "told claim", "told commit")
    assert most_at_once(runs(events, {*narrow, *both})) <= 2
    assert most_at_once(runs(events, {*wide, *both})) <= 4
    assert [(one.held, one.waiting) for one in scene.store.semaphores()] == [(0, 0), (0, 0)]


def test_jobs_of_an_order_key_run_one_at_a_time_and_in_order(scene: Scene) -> None:
    keys = {key: scene.push(40, 0.005, order_key=key) for key in ("ant", "bee", "cow", "doe", "eel", "fox")}
    scene.push(100, 0.005)
    killed_in_turns(scene)
    scene.verify()
    events = scene.events("started", "asked commit", "asked refund", "asked rollback", "told claim", "told commit")
    for key, jobs in keys.items():
        found = runs(events, set(jobs))
        assert most_at_once(found) == 1, key
        assert first_starts(found) == jobs, key


def test_a_flow_is_completed_once(scene: Scene) -> None:
    members, fanned = 200, 40
    root = Node(new_id(), "", kind="list", size=members)
    root = root._replace(root=root.id)
    bond = Node(new_id(), root.id)
    jobs = [
        job._replace(flow=Standing(root.id, root.id, place).text) for place, job in enumerate(new_batch(members, 0.005))
    ]
    after = [
        job._replace(flow=Standing(root.id, bond.id if n == 0 else "").text, waits_for=node_gate(root.id))
        for n, job in enumerate(new_batch(fanned, 0.005))
    ]
    scene.store.open_flow([root, bond], [*after, *jobs])
    killed_in_turns(scene)
    nodes = {node.id: node for node in scene.store.nodes(root.id)}
    assert {node.state for node in nodes.values()} == {NodeState.DONE}
    assert nodes[root.id].ended == members
    assert [end.place for end in scene.store.ends(root.id)] == list(range(members))
    ids = {job.id for job in (*jobs, *after)}
    commits = [event.job for event in scene.events("told commit") if event.detail == "done"]
    assert len(set(commits)) == len(commits)
    assert {job for job, row in scene.store.fetch(list(ids)).items() if row.state == "done"} == ids
    started = first_starts(runs(scene.events("started", "asked commit"), ids))
    assert set(started[:members]) == {job.id for job in jobs}  # none of those after has begun before
