"""A private Redis Cluster."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

from redis import Redis

from tests.servers.process import START_SECONDS, ServerFailed, free_port
from tests.servers.redis import RedisServer

SLOTS = 16_384
MASTERS = 3

QUICK = {"cluster-node-timeout": "2000"}
CALM = {"cluster_node_timeout": "60000"}
"""They come together quickly, and then bear with a slow machine."""


class RedisCluster:
    """Three masters on free loopback ports, with a third of the slots each."""

    def __init__(self) -> None:
        self._bus_ports = [free_port() for _ in range(MASTERS)]
        self.nodes = [
            RedisServer(settings={"cluster-enabled": "yes", "cluster-port": str(port), "databases": "1", **QUICK})
            for port in self._bus_ports
        ]
        self._prefixes = itertools.count()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as started:
            for node in self.nodes:
                started.enter_context(node)
            self._join()
            self.await_ok()
            for node in self.nodes:
                node.configure(**CALM)
            self._stack = started.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def url(self) -> str:
        """Return the address of the cluster: that of one node, which knows the others."""
        return self.nodes[0].url().replace("redis://", "redis+cluster://")

    @contextmanager
    def keyspace(self) -> Iterator[str]:
        """Give the address with a prefix of its own; all keys of the cluster are deleted afterwards."""
        yield f"{self.url()}?prefix=test{next(self._prefixes)}"
        self.flush()

    def flush(self) -> None:
        """Delete all keys."""
        for client in self._clients():
            client.flushall()

    def await_ok(self) -> None:
        """Wait until all nodes agree that every slot is served."""
        deadline = time.monotonic() + START_SECONDS
        while not all(_is_ok(client) for client in self._clients()):
            if time.monotonic() > deadline:
                raise ServerFailed(f"no cluster: {[client.cluster('info') for client in self._clients()]}")
            time.sleep(0.05)

    def _join(self) -> None:
        for number, client in enumerate(self._clients()):
            slots = range(SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS)
            client.cluster("SET-CONFIG-EPOCH", number + 1)
            client.cluster("ADDSLOTS", *slots)
            client.cluster("MEET", "127.0.0.1", self.nodes[0].port, self._bus_ports[0])

    def _clients(self) -> Iterator[Redis]:
        for node in self.nodes:
            with node.client() as client:
                yield client


def _is_ok(client: Redis) -> bool:
    state = client.cluster("info")
    return state["cluster_state"] == "ok" and int(state["cluster_known_nodes"]) == MASTERS
