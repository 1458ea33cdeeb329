"""The shape of a queue: set by the first job or setting that needs it, and reset by maintenance."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Queue
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import OpenFlow
from stanchion.stores.records.jobs import UNLANED, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Move, Rollback
from stanchion.stores.records.queues import QueueShape
from stanchion.stores.records.staging import Publication
from stanchion_conformance.flows.flow_nodes import members, new_node
from stanchion_conformance.harness import LONG_LEASE, QUEUE, claim, new_job, sizes_of

SLOTS = '{"hold":["press"]}'
NEEDS: dict[str, dict[str, Any]] = {
    "semaphore": {"limits": SLOTS},
    "order key": {"order_key": "k"},
    "rate": {"limits": '{"rate":["mail",100000.0]}'},
}


def shape(store: Store, queue: str = QUEUE) -> QueueShape:
    """Return the shape of a queue that is there."""
    (settings,) = store.queues([queue])
    return settings.shape


def finish_all(store: Store, queue: str = QUEUE) -> list[str]:
    """Claim and commit all jobs that are due; return their ids in order."""
    done: list[str] = []
    while rows := claim(store, 3, queue=queue):
        done += [row.id for row in rows]
        store.settle([Commit(row.lease) for row in rows])
    return done


class TestShapes:
    def test_a_queue_is_plain(self, store: Store) -> None:
        store.push([new_job()])
        assert shape(store) == "plain"

    @pytest.mark.parametrize("need", NEEDS)
    def test_the_first_job_that_uses_slots(self, store: Store, other_store: Store, need: str) -> None:
        store.push([new_job(), new_job(**NEEDS[need])])
        assert shape(other_store) == "slots"

    def test_the_first_job_in_a_lane(self, store: Store, other_store: Store) -> None:
        store.push([new_job(lane=3)])
        assert shape(other_store) == "lanes"

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"lanes": 4, "uses_lanes": True}, "lanes"),
            ({"paused": True}, "limited"),
            ({"max_rate": 5.0}, "limited"),
            ({"max_running": 2}, "limited"),
            ({"lease": 5.0}, "plain"),
        ],
    )
    def test_a_setting(self, store: Store, changes: dict[str, Any], expected: QueueShape) -> None:
        assert store.configure(QUEUE, changes).shape == expected
        assert shape(store) == expected

    def test_several_at_once(self, store: Store) -> None:
        store.push([new_job(lane=3), new_job(limits=SLOTS)])
        assert shape(store) == "limited"

    def test_a_job_that_moves_there(self, store: Store) -> None:
        store.push([new_job(limits=SLOTS, queue="from")])
        (row,) = claim(store, queue="from")
        store.settle([Move(row.lease, QUEUE)])
        assert shape(store) == "slots"

    def test_a_job_that_is_published_there(self, store: Store) -> None:
        store.stage("write", "one", [new_job(limits=SLOTS)])
        store.publish(Publication("write", (("one", 1),)))
        assert shape(store) == "slots"

    def test_a_job_that_is_copied_there(self, store: Store) -> None:
        (row,) = store.fetch([store.push([new_job(limits=SLOTS, queue="from")])[0].id]).values()
        store.adopt([row._replace(id=new_id(), queue=QUEUE)])
        assert shape(store) == "slots"

    @pytest.mark.parametrize("need", [{"lane": 3}, {"limits": SLOTS}], ids=["lane", "slots"])
    def test_a_job_that_is_retried(self, store: Store, other_store: Store, need: dict[str, Any]) -> None:
        store.push([new_job(**need)])
        before = shape(store)
        (row,) = claim(store)
        store.settle([Bury(row.lease, "it broke")])
        store.maintain()
        assert shape(store) == "plain"
        store.retry([row.id])
        assert shape(other_store) == before

    def test_a_member_of_a_flow_needs_nothing(self, store: Store) -> None:
        node = new_node(2)
        store.change_flows([OpenFlow([node], members(node))])
        assert shape(store) == "plain"
        assert len(claim(store, 2)) == 2

    def test_a_job_that_a_flow_opens(self, store: Store) -> None:
        node = new_node(2)
        store.change_flows([OpenFlow([node], members(node, lane=3))])
        assert shape(store) == "lanes"

    def test_upkeep_sets_it_back(self, store: Store, other_store: Store) -> None:
        store.push([new_job(lane=3), new_job(limits=SLOTS)])
        store.maintain()
        assert shape(store) == "limited", "they are there yet"
        finish_all(store)
        store.maintain()
        assert shape(other_store) == "plain"

    def test_a_running_job_keeps_it(self, store: Store) -> None:
        store.push([new_job(limits=SLOTS)])
        (row,) = claim(store, lease=LONG_LEASE)
        store.maintain()
        assert shape(store) == "slots"
        store.settle([Rollback(row.lease, 0.0)])
        assert finish_all(store) == [row.id]

    def test_lanes_that_are_set_stay(self, q: Queue, store: Store) -> None:
        q.configure(lanes=4)
        store.maintain()
        assert shape(store) == "lanes"

    def test_another_process_pushes_on_after_it_was_set_back(self, store: Store, other_store: Store) -> None:
        for lane, need in ((UNLANED, {"limits": SLOTS}), (2, {})):
            for _ in range(2):
                job = new_job(lane=lane, **need)
                other_store.push([job])
                other_store.maintain()
                assert finish_all(store) == [job.id]
                store.maintain()

    @pytest.mark.parametrize("need", [{}, {"lane": 3}, *NEEDS.values()], ids=["plain", "lane", *NEEDS])
    def test_a_queue_that_was_dropped_has_the_shape_of_its_new_jobs(
        self, store: Store, other_store: Store, need: dict[str, Any]
    ) -> None:
        store.push([new_job(**need)])
        before = shape(other_store)
        store.drop_queue(QUEUE)
        assert store.queues([QUEUE]) == []
        store.push([new_job(**need)])
        assert shape(other_store) == before


def job_of(kind: str, n: int) -> NewJob:
    """Return a job of a kind that shapes a queue."""
    if kind == "lanes":
        return new_job(lane=n % 3)
    return new_job(**NEEDS.get(kind, {}))


class TestEachWayForEachShape:
    @pytest.mark.parametrize("before", ["plain", "lanes", *NEEDS])
    @pytest.mark.parametrize("after", ["plain", "lanes", *NEEDS])
    def test_jobs_of_one_kind_behind_those_of_another(
        self, store: Store, other_store: Store, before: str, after: str
    ) -> None:
        for kind in (before, after, before):
            jobs = [job_of(kind, n) for n in range(5)]
            store.push(jobs)
            assert sorted(finish_all(other_store)) == sorted(job.id for job in jobs)
            assert claim(other_store) == []

    @pytest.mark.parametrize("kind", ["plain", "lanes", "rate"])
    @pytest.mark.parametrize("changes", [{"paused": True}, {"max_running": 2}, {"max_rate": 0.001}])
    def test_a_limit_that_comes_and_goes(
        self, store: Store, other_store: Store, kind: str, changes: dict[str, Any]
    ) -> None:
        store.push([job_of(kind, n) for n in range(9)])
        assert len(claim(store, 2, lease=LONG_LEASE)) == 2
        other_store.configure(QUEUE, changes)
        claim(store, 1, lease=LONG_LEASE)  # of a rate, the first token
        left = 9 - sizes_of(store, QUEUE).running
        assert claim(store, 5, lease=LONG_LEASE) == []
        other_store.configure(QUEUE, {"paused": False, "max_running": None, "max_rate": None})
        assert len(claim(store, 9, lease=LONG_LEASE)) == left
