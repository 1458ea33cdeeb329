"""The Redis store on a cluster of three masters behaves as every store does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.conformance.variants import leave_out_the_model
from tests.servers.redis_cluster import RedisCluster

del TestFeedInTransactions, TestJoining, TestTogetherInTransactions, TestAnotherDatabase  # noqa: F821
del TestResultTables, TestRefusedRows  # noqa: F821
leave_out_the_model(globals())

pytestmark = pytest.mark.slow


@pytest.fixture
def store_factory(redis_cluster: RedisCluster) -> Iterator[NewStore]:
    with redis_cluster.keyspace() as url, ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(url)))
