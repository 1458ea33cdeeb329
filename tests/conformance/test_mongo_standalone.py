"""Alone, without a replica set, the MongoDB store behaves the same, but for the transactions that it can't join.

It sends the same commands there, so what shows how it deals with the server will do.
"""

from collections.abc import Iterator

import pytest

from stanchion_conformance import *  # noqa: F403
from tests.conformance.test_mongo import store_factory
from tests.conformance.variants import leave_out_all_but
from tests.servers.mongo import MongoServer, OwnMongoServer

leave_out_all_but(
    globals(),
    *("TestPush", "TestUniqueKeys", "TestReserve", "TestFencing", "TestAttempts", "TestRecovery", "TestCancel"),
    *("TestSlots", "TestWaitingForASlot", "TestOrder", "TestOneWins", "TestGroup", "TestFanOut"),
    *("TestPublishing", "TestWaiting", "TestRepeatedClaimsById"),
    *("TestTopics", "TestRepeatedEvents", "TestLateSubscribers"),
)

__all__ = ["store_factory"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database(mongo_server: MongoServer) -> Iterator[str]:
    """A database on a standalone server, with the schema, which each test finds empty."""
    if not isinstance(mongo_server, OwnMongoServer):
        pytest.skip("the server is another's, and what it is: see what STANCHION_TEST_MONGODB names")
    with mongo_server.database("standalone") as url:
        yield url
