"""Alone, without a replica set, the MongoDB store behaves the same, but for the transactions that it can't join."""

from collections.abc import Iterator

import pytest

from stanchion.testing.conformance import *  # noqa: F403
from tests.conformance.test_mongo import store_factory
from tests.conformance.variants import leave_out_the_model
from tests.servers.mongo import MongoServer, OwnMongoServer

del TestJoining  # noqa: F821
del TestFanOutInTransactions  # noqa: F821
del TestFlowsInTransactions  # noqa: F821
del TestFlowsOfACallersTransaction  # noqa: F821
del TestRefusing  # noqa: F821 - that it refuses, tests/mongo/test_transactions.py shows

leave_out_the_model(globals())

__all__ = ["store_factory"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database(mongo_server: MongoServer) -> Iterator[str]:
    """A database on a standalone server, with the schema, which each test finds empty."""
    if not isinstance(mongo_server, OwnMongoServer):
        pytest.skip("the server is another's, and what it is: see what STANCHION_TEST_MONGODB names")
    with mongo_server.database("standalone") as url:
        yield url
