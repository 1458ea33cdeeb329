"""A partitioned queue on a cluster is on all its nodes, and outlives one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from redis.crc import key_slot

from stanchion import Push, Queue, Stanchion
from stanchion.context import context_of
from stanchion.core.names.hashing import bucket
from stanchion.core.names.partition_names import partition_name
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.redis.client.keys import Keys
from stanchion_conformance.harness import payloads
from tests.servers.redis_cluster import MASTERS, SLOTS, RedisCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 16
QUEUE = "orders"


def node_of(prefix: str) -> int:
    """Return the number of the node with these keys."""
    return next(n for n in range(MASTERS) if key_slot(prefix.encode()) < SLOTS * (n + 1) // MASTERS)


def nodes_of_partitions(prefix: str) -> list[int]:
    return [node_of(Keys(prefix).queue(partition_name(QUEUE, number))) for number in range(PARTITIONS)]


def keys_by_partition() -> dict[int, str]:
    """Return a key for each partition."""
    return {bucket(f"k{n}", PARTITIONS): f"k{n}" for n in range(500)}


class TestOnACluster:
    @pytest.fixture
    def url(self, redis_cluster: RedisCluster) -> Iterator[str]:
        with redis_cluster.keyspace() as url:
            yield url

    def test_is_on_all_nodes(self, redis_cluster: RedisCluster, url: str) -> None:
        with closing(Stanchion(url)) as app:
            app.setup()
            queue = app.queue(QUEUE, partitions=PARTITIONS)
            jobs = queue.push_many([*(Push(n, key=f"k{n}") for n in range(100)), *range(100, 200)])
            assert len({job.partition for job in jobs}) == PARTITIONS
            prefix = url.partition("prefix=")[2]
            assert set(nodes_of_partitions(prefix)) == set(range(MASTERS))
            for number, node in enumerate(redis_cluster.nodes):
                with node.client() as client:
                    held = set(client.keys(f"{prefix}:*{QUEUE}#*live"))
                wanted = {n for n, at in enumerate(nodes_of_partitions(prefix)) if at == number}
                assert held == {Keys(prefix).queue(partition_name(QUEUE, n)) + "live" for n in wanted}
            assert sorted(payloads(queue.reserve(200))) == list(range(200))


@pytest.mark.nightly
class TestADeadNode:
    @pytest.fixture
    def cluster(self) -> Iterator[RedisCluster]:
        with RedisCluster() as cluster:
            for node in cluster.nodes:
                node.configure(cluster_require_full_coverage="no")
            yield cluster

    def test_takes_only_its_partitions_along(self, cluster: RedisCluster) -> None:
        url = cluster.url()
        keys, nodes = keys_by_partition(), nodes_of_partitions("stanchion")
        # The node of the keys that belong to no queue lives.
        victim = next(n for n in range(1, MASTERS) if n != node_of(Keys("stanchion").own("queues")))
        with closing(Stanchion(url)) as app:
            app.setup()
            queue = app.queue(QUEUE, partitions=PARTITIONS)
            before = queue.push_many([Push(n, key=keys[n]) for n in range(PARTITIONS)])
            cluster.nodes[victim].kill()
            alive = [n for n in range(PARTITIONS) if nodes[n] != victim]
            assert 0 < len(alive) < PARTITIONS
            for number in alive:
                assert queue.push("again", key=keys[number]).id == before[number].id
            dead = next(n for n in range(PARTITIONS) if nodes[n] == victim)
            with pytest.raises(StoreUnavailable):
                queue.push("again", key=keys[dead])
            self._consume_alive(queue, alive)
            cluster.nodes[victim].start()
            cluster.await_ok()
            left = queue.reserve(PARTITIONS)
            assert {job.partition for job in left} == {n for n in range(PARTITIONS) if nodes[n] == victim}
            assert [job.id for job in before if job.partition == dead] == [
                job.id for job in left if job.partition == dead
            ]

    def _consume_alive(self, queue: Queue, alive: list[int]) -> None:
        """Take the jobs of the partitions that are alive, by their names."""

        for number in alive:
            claim = Claim(partition_name(QUEUE, number), 5, f"t{number}", lease=600.0)
            (row,) = context_of(queue).store.claim(claim).rows
            assert context_of(queue).store.settle([Commit(row.lease)]) == ["done"]
