"""A server whose memory is full can be emptied: by workers, by hand, and by the upkeep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.exceptions import OutOfMemoryError

from stanchion.core.ids import new_id, new_ids
from stanchion.errors import StoreUnavailable
from stanchion.queues.operating import purge
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowNode, OpenFlow
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.waits.pop import pop
from stanchion_conformance.harness import find_jobs, sizes_of
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.redis.keys import broken_rules
from tests.servers.redis import RedisServer

WORKER = WorkerRow("w1", "host", 1, (QUEUE,), 8, 10.0, "running", 0, 0)


@pytest.fixture
def bare(store: RedisStore) -> RedisStore:
    """A store whose queue keeps no history."""
    store.configure(QUEUE, {"history_ttl": 0.0})
    return store


def fill(server: RedisServer) -> None:
    """Have every command refused that may need memory."""
    server.configure(maxmemory="1000000", maxmemory_policy="noeviction")
    with server.client() as admin, pytest.raises(OutOfMemoryError):
        admin.set("anything", "1")


def test_it_opens(any_server: RedisServer, opened: Open, bare: RedisStore) -> None:
    bare.push(new_jobs(1))
    fill(any_server)
    other = opened(any_server.url())
    other.check()
    assert sizes_of(other, QUEUE).ready == 1
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        other.push(new_jobs(1))


def test_workers_run_it_empty(any_server: RedisServer, opened: Open, bare: RedisStore) -> None:
    bare.push(new_jobs(5))
    fill(any_server)
    other = opened(any_server.url())
    assert other.beat([replace(WORKER, began=("job:token",))]).live == 1
    assert other._workers.known_workers()[WORKER.id].began == ("job:token",)
    rows = other.claim(Claim(QUEUE, 9, "t", worker="w1")).rows
    assert other.settle([Rollback(rows[0].lease, 0.0), *(Commit(row.lease) for row in rows[1:])]) == [
        JobState.READY,
        *4 * [JobState.DONE],
    ]
    assert [row.id for row in pop(other, Claim(QUEUE, 9, "")).rows] == [rows[0].id]
    assert sizes_of(bare, QUEUE).total == 0
    assert broken_rules(bare, QUEUE) == []


def test_jobs_with_history_are_popped_cancelled_and_purged(
    any_server: RedisServer, opened: Open, store: RedisStore
) -> None:
    jobs = store.push([*new_jobs(4), *(job._replace(key=job.id) for job in new_jobs(2))])
    (running,) = store.claim(Claim(QUEUE, 1, "t", worker="w1")).rows
    fill(any_server)
    other = opened(any_server.url())
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        other.claim(Claim(QUEUE, 1, "u"))
    assert [row.id for row in pop(other, Claim(QUEUE, 1, "")).rows] == [jobs[1].id]
    assert other.settle([Commit(running.lease, '"done"')]) == [JobState.DONE]
    assert other.cancel([job.id for job in jobs[2:]]) == 4 * [JobState.CANCELLED]
    assert purge(other, QUEUE, 0.0) == 6
    assert broken_rules(store, QUEUE) == []


def test_it_is_paused_and_its_history_shortened(any_server: RedisServer, opened: Open, store: RedisStore) -> None:
    store.push(new_jobs(3))
    fill(any_server)
    other = opened(any_server.url())
    assert other.configure(QUEUE, {"paused": True, "history_ttl": 0.0}).paused
    assert pop(other, Claim(QUEUE, 3, "")).rows == []
    other.configure(QUEUE, {"paused": False})
    rows = other.claim(Claim(QUEUE, 3, "t")).rows
    assert other.settle([Commit(row.lease) for row in rows]) == 3 * [JobState.DONE]


def test_limited_jobs_and_those_of_flows_end(any_server: RedisServer, opened: Open, bare: RedisStore) -> None:
    bare.set_semaphore("smtp", 1)
    (root,) = new_ids(1)
    limited = limits_text(Limits(("smtp",)))
    bare.push([NewJob(new_id(), QUEUE, "{}", limits=limited, order_key="k") for _ in range(3)])
    bare.change_flows(
        [
            OpenFlow(
                [FlowNode(root, root, "list")],
                [NewJob(new_id(), QUEUE, "{}", flow_root=root, flow_node=root, flow_index=0)],
            )
        ]
    )
    fill(any_server)
    other = opened(any_server.url())
    done = 0
    while rows := other.claim(Claim(QUEUE, 9, "t", worker="w1")).rows:
        assert set(other.settle([Commit(row.lease) for row in rows])) == {JobState.DONE}
        done += len(rows)
    assert done == 4
    assert [node.state for node in bare.flow_nodes(root)] == ["done"]
    assert broken_rules(bare, QUEUE) == []


def test_the_upkeep_purges_first(any_server: RedisServer, opened: Open, store: RedisStore) -> None:
    store.configure(QUEUE, {"history_ttl": 60.0})
    store.push(new_jobs(4))
    assert len(pop(store, Claim(QUEUE, 3, "")).rows) == 3
    (row,) = store.claim(Claim(QUEUE, 1, "t")).rows
    fill(any_server)
    other = opened(any_server.url())
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        other.settle([Commit(row.lease, jobs=tuple(new_jobs(1)))])
    other.clock_offset = 61.0
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        other.maintain()  # what the commit entails has no room yet
    assert find_jobs(other, queue=QUEUE) == []
    any_server.configure(maxmemory="0")
    other.maintain()
    assert sizes_of(other, QUEUE).ready == 1


def test_a_long_result_is_refused_and_nothing_is_half_done(any_server: RedisServer, store: RedisStore) -> None:
    store.push(new_jobs(2))
    rows = store.claim(Claim(QUEUE, 2, "t")).rows
    fill(any_server)
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        store.settle([Commit(row.lease, '"' + 3000 * "x" + '"') for row in rows])
    assert sizes_of(store, QUEUE).running == 2
    assert broken_rules(store, QUEUE) == []


def test_a_push_to_several_queues_is_refused_in_all(any_server: RedisServer, store: RedisStore) -> None:
    wide = [job._replace(queue=f"{QUEUE}{number}") for number, job in enumerate(new_jobs(20))]
    store.push(wide)
    fill(any_server)
    for jobs in (wide[:1], [job._replace(id=new_id()) for job in wide]):
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            store.push([*jobs, NewJob(new_id(), QUEUE, "1")])
    any_server.configure(maxmemory="0")
    assert [sizes_of(store, job.queue).total for job in wide] == [1] * 20
    assert sizes_of(store, QUEUE).total == 0
