"""The Redis store on the oldest Redis that it supports, and on Valkey, behaves as every store does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.conformance.variants import leave_out_the_model
from tests.servers.redis import PACKAGED, RedisServer

del TestFeedInTransactions, TestJoining, TestTogetherInTransactions, TestAnotherDatabase  # noqa: F821
del TestResultTables, TestRefusedRows  # noqa: F821
leave_out_the_model(globals())

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=PACKAGED)
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with RedisServer(settings={"appendonly": "no"}, other=request.param) as server:
        yield server


@pytest.fixture
def store_factory(server: RedisServer) -> Iterator[NewStore]:
    with server.database() as url, ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(url)))
