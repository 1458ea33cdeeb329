"""Loads for the workers of a scene, each with what must hold in the end, whichever process died meanwhile."""

from __future__ import annotations

from typing import Protocol

from stanchion.core.ids import new_id
from stanchion.stores.records.flows import FlowNode, NodeState, OpenFlow
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import node_slot, waits_at
from stanchion.stores.rules.flows import FlowPosition
from tests.crash.journal import What
from tests.crash.producer import new_batch
from tests.crash.runs import Run, first_starts, most_at_once, runs
from tests.crash.scene import TIMEOUT_SECONDS, Scene


class Load(Protocol):
    """Jobs that were pushed to a scene when it was made."""

    def judge(self) -> None:
        """Assert what must hold once no job is live."""


def _runs(scene: Scene, jobs: set[str]) -> list[Run]:
    kinds: tuple[What, ...] = (
        "asked commit",
        "asked refund",
        "asked rollback",
        "claimed",
        "told commit",
        "recovered",
    )
    return runs(scene.events("started", *kinds), jobs)


class Semaphores:
    """Jobs of two semaphores, and of both."""

    def __init__(self, scene: Scene, each: int = 100) -> None:
        self._scene = scene
        for name, capacity in (("narrow", 2), ("wide", 4)):
            scene.store.set_semaphore(name, capacity)
        self._narrow = scene.push(each, 0.01, limits=limits_text(Limits(("narrow",))))
        self._both = scene.push(each, 0.01, limits=limits_text(Limits(("wide", "narrow"))))
        self._wide = scene.push(each, 0.01, limits=limits_text(Limits(("wide",))))

    def judge(self) -> None:
        """Never more at once than the capacity; in the end no slot is held, and no job waits for one."""
        assert most_at_once(_runs(self._scene, {*self._narrow, *self._both})) <= 2
        assert most_at_once(_runs(self._scene, {*self._wide, *self._both})) <= 4
        self._scene.wait(self._are_free, TIMEOUT_SECONDS, "all slots to be free")

    def _are_free(self) -> bool:
        """Do what workers do now and then: a process may have died between the end of a job and that of its slot."""
        store = self._scene.store
        store.recover()
        store.maintain()
        return not any(one.held or one.waiting for one in store.semaphores())


class OrderKeys:
    """Jobs of some order keys."""

    def __init__(self, scene: Scene, each: int = 40) -> None:
        self._scene = scene
        alike = ("ant", "Ant", "änt", "doe", "doe ", "cow")
        self._keys = {key: scene.push(each, 0.005, order_key=key) for key in alike}

    def judge(self) -> None:
        """One of a key at a time, in the order of their enqueue."""
        for key, jobs in self._keys.items():
            found = _runs(self._scene, set(jobs))
            assert most_at_once(found) == 1, key
            assert first_starts(found) == jobs, key


class Flow:
    """A flow of members, and of jobs that come after all of them."""

    def __init__(self, scene: Scene, members: int = 200, fanned: int = 40) -> None:
        self._scene, self._size = scene, members
        root = FlowNode(new_id(), "", kind="list", size=members)
        self._root = root = root._replace(root=root.id)
        bond = FlowNode(new_id(), root.id)
        self._members = [
            job._replace(**FlowPosition(root.id, root.id, place)._asdict())
            for place, job in enumerate(new_batch(members, 0.005))
        ]
        positions = [FlowPosition(root.id, bond.id, 0), *[FlowPosition(root.id)] * (fanned - 1)]
        self._after = [
            job._replace(**position._asdict(), **waits_at(node_slot(root.id)))
            for position, job in zip(positions, new_batch(fanned, 0.005), strict=True)
        ]
        scene.store.change_flows([OpenFlow([root, bond], [*self._after, *self._members])])

    def judge(self) -> None:
        """All members have ended once, in their places, and none of those after them has begun before."""
        store = self._scene.store
        nodes = {node.id: node for node in store.flow_nodes(self._root.id)}
        assert {node.state for node in nodes.values()} == {NodeState.DONE}
        assert nodes[self._root.id].ended == self._size
        assert [end.index for end in store.flow_ends(self._root.id)] == list(range(self._size))
        ids = {job.id for job in (*self._members, *self._after)}
        assert {job for job, row in store.fetch(list(ids)).items() if row.state == "done"} == ids
        started = first_starts(runs(self._scene.events("started", "asked commit"), ids))
        assert set(started[: self._size]) == {job.id for job in self._members}
