"""What only a cluster does: slots, and slots that move while they are in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from redis import Redis
from redis.cluster import RedisCluster as ClusterClient

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowNode, OpenFlow
from stanchion.stores.records.jobs import JobState, Lease, NewJob, Pushed
from stanchion.stores.records.outcomes import Bury, Commit, Move, Rollback
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text
from stanchion.stores.rules.capacity.slots import order_slot, semaphore_slot
from stanchion.stores.rules.flows import FlowPosition
from stanchion.waits.pop import pop
from stanchion_conformance.harness import counts_of, worker
from tests.crash.scene import until
from tests.redis.conftest import Open
from tests.redis.keys import broken_rules
from tests.redis.load import Load
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster

QUEUES = ("orders", "a}b", "{x}y", "}{", "50%", "%7D", "två ord")
COMMON = {"queues", "workers", "version", "slots", "semaphores", "flows"}
ATTEMPTS = ClusterClient.RedisClusterRequestTTL
"""How often the client itself sends a call that is refused."""


@pytest.fixture
def url(redis_cluster: RedisCluster) -> Iterator[str]:
    with redis_cluster.keyspace() as url:
        yield url


@pytest.fixture
def own_cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
def store(url: str, opened: Open) -> RedisStore:
    return opened(url)


def use_all(store: RedisStore, queue: str, other: str) -> None:
    """Do with a queue whatever makes keys."""
    store.setup()
    store.beat([worker("w")])
    store.configure(queue, {"max_rate": 1e6, "dead_letter": "letters"})
    jobs = [NewJob(f"{queue}-{number}", queue, "{}", priority=number, key=f"k{number}") for number in range(8)]
    store.push([*jobs, NewJob(f"{queue}-later", queue, "{}", delay=60.0)])
    rows = store.claim(Claim(queue, 7, "t", lease=60.0)).rows
    store.cancel([row.id for row in rows[6:]])
    store.settle(
        [
            Commit(rows[0].lease, "1"),
            Rollback(rows[1].lease, 0.0, "no"),
            Bury(rows[2].lease, "no"),
            Move(rows[3].lease, other),
            Commit(rows[4].lease, "1", '{"new":1}'),
        ]
    )
    store.set_semaphore(queue, 1)
    limits = limits_text(Limits((queue,), Rate("mail}", 1e6)))
    node = FlowNode(f"{queue}-node", f"{queue}-node", size=2)
    flow = FlowPosition(node.id, node.id, 0)._asdict()
    keyed = [NewJob(f"{queue}-key{number}", queue, "{}", order_key="}{", limits=limits) for number in range(2)]
    store.change_flows([OpenFlow([node], [*keyed, NewJob(f"{queue}-flow", queue, "{}", **flow)])])
    store.push([NewJob(f"{queue}-limited{number}", queue, "{}", limits=limits) for number in range(3)])
    store.claim(Claim(queue, 99, "u", lease=60.0))
    store.settle([Bury(Lease(queue, f"{queue}-flow", "u"), "no")])
    store.maintain()


def test_every_key_of_a_queue_is_in_one_slot(redis_cluster: RedisCluster, store: RedisStore) -> None:
    for queue, other in zip(QUEUES, QUEUES[1:] + QUEUES[:1], strict=True):
        use_all(store, queue, other)
    prefix = store.server.keys.own("")
    keys = [key for node in redis_cluster.nodes for key in all_keys(node) if key.startswith(prefix)]
    for queue in (*QUEUES, "letters"):
        its = [key for key in keys if key.startswith(store.server.keys.queue(queue))]
        assert len(its) > 5, queue
        assert {slot_of(redis_cluster, key) for key in its} == {slot_of(redis_cluster, store.server.keys.queue(queue))}
        keys = [key for key in keys if key not in its]
    for begins in (
        store.server.keys.slot(semaphore_slot("a}b")),
        store.server.keys.slot(order_slot("orders", "}{")),
        store.server.keys.flow("{x}y-node"),
    ):
        its = [key for key in keys if key.startswith(begins)]
        assert its != []
        assert {slot_of(redis_cluster, key) for key in its} == {slot_of(redis_cluster, begins)}
    own = {key.removeprefix(prefix) for key in keys}
    own -= {"rate:mail}"}  # which expires a second after its last start
    assert {key for key in own if not key.startswith(("slot:{", "flow:{"))} == COMMON
    assert all(broken_rules(store, queue) == [] for queue in (*QUEUES, "letters"))


def test_names_that_could_be_taken_for_each_other_are_apart(store: RedisStore) -> None:
    for number, queue in enumerate(QUEUES):
        store.push([NewJob(f"{number}", queue, "{}")])
    for number, queue in enumerate(QUEUES):
        assert [row.id for row in pop(store, Claim(queue, 9, "t")).rows] == [f"{number}"]
    assert sorted(settings.name for settings in store.queues()) == sorted(QUEUES)


@pytest.mark.slow
def test_a_slot_moves_while_its_queue_is_in_use(own_cluster: RedisCluster, opened: Open) -> None:
    store = opened(own_cluster.url())
    slot = slot_of(own_cluster, store.server.keys.queue("orders"))
    with Load(lambda: opened(own_cluster.url()), "orders") as load:
        for _ in range(4):
            load.await_more(200)
            move_slot(own_cluster, slot)
        load.await_more(200)
    assert load.refused == 0
    assert broken_rules(store, "orders") == []
    counts = counts_of(store, "orders")
    assert (counts.pushed, counts.committed) == (len(load.pushed), len(load.committed))
    store.clock_offset += 3600
    while rows := store.claim(Claim("orders", 500, "last")).rows:
        assert set(store.settle([Commit(row.lease) for row in rows])) == {JobState.DONE}
    assert counts_of(store, "orders").committed == len(load.pushed)


@pytest.mark.slow
def test_calls_wait_while_a_slot_moves_slowly(own_cluster: RedisCluster, opened: Open) -> None:
    store = opened(own_cluster.url())
    store.push([NewJob("before", "orders", "{}")])
    slot = slot_of(own_cluster, store.server.keys.queue("orders"))
    pushed: list[Future[list[Pushed]]] = []

    def push_amid() -> None:
        if not pushed:
            pushed.append(pool.submit(store.push, [NewJob("amid", "orders", "{}")]))
            until(lambda: told_to_try_again(own_cluster) > 3 * ATTEMPTS or pushed[0].done(), 60.0, "refused calls")

    with ThreadPoolExecutor() as pool:
        move_slot(own_cluster, slot, after_a_key=push_amid)
        assert [stored.id for stored in pushed[0].result()] == ["amid"]
    assert told_to_try_again(own_cluster) > ATTEMPTS
    assert [row.id for row in store.claim(Claim("orders", 9, "t")).rows] == ["before", "amid"]
    assert broken_rules(store, "orders") == []


def told_to_try_again(cluster: RedisCluster) -> int:
    """Count the calls that the nodes refused because they had a part of the keys only."""
    counts = []
    for node in cluster.nodes:
        with node.client() as client:
            counts.append(client.info("errorstats").get("errorstat_TRYAGAIN", {"count": 0})["count"])
    return sum(counts)


def move_slot(cluster: RedisCluster, slot: int, *, after_a_key: Callable[[], object] = bool) -> None:
    """Move a slot to the next node, key by key, as `redis-cli --cluster reshard` does."""
    clients = [node.client() for node in cluster.nodes]
    ids = [str(client.cluster("MYID")) for client in clients]
    (here,) = (number for number, client in enumerate(clients) if owns(client, slot))
    there = (here + 1) % len(clients)
    clients[there].cluster("SETSLOT", slot, "IMPORTING", ids[here])
    clients[here].cluster("SETSLOT", slot, "MIGRATING", ids[there])
    while keys := clients[here].cluster("GETKEYSINSLOT", slot, 1):
        clients[here].migrate("127.0.0.1", cluster.nodes[there].port, keys, 0, 5000)
        after_a_key()
    for number in (there, here, *(each for each in range(len(clients)) if each not in (here, there))):
        clients[number].cluster("SETSLOT", slot, "NODE", ids[there])
    for client in clients:
        client.close()


def owns(client: Redis, slot: int) -> bool:
    """Tell whether the node serves the slot."""
    me = str(client.cluster("MYID"))
    return any(
        node["node_id"] == me and any(int(first) <= slot <= int(last) for first, last in _ranges(node["slots"]))
        for node in client.cluster("NODES").values()
    )


def _ranges(slots: list[list[str]]) -> Iterator[tuple[str, str]]:
    for part in slots:
        yield part[0], part[-1]


def all_keys(node: RedisServer) -> list[str]:
    with node.client() as client:
        return [str(key) for key in client.scan_iter(count=1000)]


def slot_of(cluster: RedisCluster, key: str) -> int:
    with cluster.nodes[0].client() as client:
        return int(client.cluster("KEYSLOT", key))
