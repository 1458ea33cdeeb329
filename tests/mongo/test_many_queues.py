"""The heads of thousands of queues: one command for those with few jobs, steps in the index for the others."""

from __future__ import annotations

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.mongo import stats
from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.queues import QueueStats, Stat
from stanchion_conformance.harness import NewStore, new_job

QUEUES = stats.FEW + 20
MANY = stats.SHALLOW + 1


def test_many_shallow_queues_are_read_together(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store, prefix, stepped = new_store(), new_id(), list[str]()
    names = [f"{prefix}-{number}" for number in range(QUEUES)]
    start = store.now()
    jobs = [new_job(queue=name, run_at=start + place, priority=place % 3) for place, name in enumerate(names)]
    jobs += [new_job(queue=names[1], run_at=start + 5, lane=lane, priority=rank) for lane in (0, 2) for rank in (7, 9)]
    jobs += [new_job(queue=names[2], run_at=start + place) for place in range(MANY)]
    store.push(jobs)
    store.claim(Claim(queue=names[3], limit=1, token=new_id(), lease=60))
    fields: tuple[Stat, ...] = ("heads", "next_due")

    def heads(one: QueueStats) -> set[tuple[int, ...]]:
        assert one.next_due == min((head.run_at for head in one.heads), default=None)
        return {(head.lane, head.rank, head.run_at) for head in one.heads}

    few = {name: heads(store.stats([name], fields)[name]) for name in names[:8]}
    steps = stats.Stats._stepped

    def counted(self: stats.Stats, queues: list[str]) -> object:
        stepped.extend(queues)
        return steps(self, queues)

    monkeypatch.setattr(stats.Stats, "_stepped", counted)
    found = store.stats(names, fields)
    assert stepped == [names[2]]
    assert {name: heads(found[name]) for name in few} == few
    assert few[names[3]] == set()
    assert len(few[names[1]]) == 5
    assert all(one.heads for name, one in found.items() if name != names[3])
    with_states = store.stats(names, ("states", *fields))
    assert {name: heads(with_states[name]) for name in few} == few
    assert stepped == [names[2]] * 2


def test_many_queues_take_few_commands(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store, prefix, arms = new_store(), new_id(), list[object]()
    names = [f"{prefix}-{number}" for number in range(QUEUES)]
    store.push([new_job(queue=name) for name in names])
    across = stats.across  # type: ignore[attr-defined]

    def noted(server: object, given: list[list[Document]]) -> object:
        arms.extend(given)
        return across(server, given)  # type: ignore[arg-type]

    monkeypatch.setattr(stats, "across", noted)
    assert all(one.next_due is not None for one in store.stats(names, ["next_due"]).values())
    assert arms == []
