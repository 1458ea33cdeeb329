"""A partitioned queue on each database behaves as a queue does, but for the order across its partitions."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stanchion.partitions.store import PartitionedStore
from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import QUEUE, NewStore
from tests.conformance.variants import OF_A_PARTITIONED_QUEUE, leave_out_all_but
from tests.servers.redis_cluster import RedisCluster

leave_out_all_but(globals(), *OF_A_PARTITIONED_QUEUE)

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(params=["sqlite", "pg_url", "mariadb_url", "mongo_url", "redis_cluster"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}?synchronous=off"
    elif request.param == "redis_cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        with cluster.keyspace() as url:
            yield url
    else:
        yield request.getfixturevalue(request.param)


@pytest.fixture
def store_factory(url: str) -> Iterator[NewStore]:
    with ExitStack() as stack:

        def new_store() -> PartitionedStore:
            return PartitionedStore(stack.enter_context(closing(open_store(url))))

        with closing(open_store(url)) as store:
            store.setup()
            PartitionedStore(store).configure(QUEUE, {"partitions": 3})
        yield new_store
