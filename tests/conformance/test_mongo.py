"""The MongoDB store behaves as every store does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from pymongo import MongoClient

from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.servers.mongo import MongoServer

del TestRefusing  # noqa: F821
del TestAnotherDatabase  # noqa: F821 - it takes another server: see tests/mongo/test_transactions.py
del TestResultTables, TestRefusedRows  # noqa: F821

pytestmark = pytest.mark.slow

COLLECTIONS = ("jobs", "queues", "workers", "values", "slots", "flow_nodes", "flow_ends", "stage")


@pytest.fixture(scope="module")
def database(mongo_server: MongoServer) -> Iterator[str]:
    """A database with the schema, which each test finds empty."""
    with mongo_server.database() as url:
        yield url


@pytest.fixture
def store_factory(database: str) -> Iterator[NewStore]:
    client: MongoClient[dict[str, Any]]
    with MongoClient(database) as client:
        for name in COLLECTIONS:
            client.get_default_database()[f"stanchion_{name}"].delete_many({})
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(database)))
