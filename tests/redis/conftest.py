"""Stores on servers that the tests harm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import in_threads
from tests.servers.redis import PACKAGED, RedisServer
from tests.servers.redis_cluster import RedisCluster

Open = Callable[[str], RedisStore]

QUEUE = "orders"


def new_jobs(count: int, payload: str = "{}") -> list[NewJob]:
    return [NewJob(job, QUEUE, payload) for job in new_ids(count)]


@contextmanager
def later(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Act while the block waits."""

    def wait_and_act() -> None:
        time.sleep(seconds)
        act()

    with in_threads([wait_and_act]):
        yield


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens stores, each with connections of its own, and closes them."""
    with ExitStack() as stack:

        def open_one(url: str) -> RedisStore:
            store = open_store(url)
            assert isinstance(store, RedisStore)
            stack.callback(store.close)
            return store

        yield open_one


@pytest.fixture(params=["one server", pytest.param("a cluster", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a server, or at night of a cluster, with keys of its own."""
    if request.param == "a cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        return cluster.url()
    return str(request.getfixturevalue("redis_url"))


@pytest.fixture
def one(redis_server: RedisServer, opened: Open) -> RedisStore:
    """A store on one server, with keys of its own."""
    return opened(f"{redis_server.url()}?prefix={new_id()}")


@pytest.fixture(params=[None, *PACKAGED], ids=lambda other: other or "redis")
def any_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server of each kind, for one test."""
    with RedisServer(other=request.param) as server:
        yield server


@pytest.fixture
def store(any_server: RedisServer, opened: Open) -> RedisStore:
    """A store on a server of each kind."""
    return opened(any_server.url())
