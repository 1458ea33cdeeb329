"""A database with the schema for the tests of this directory."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.registry import open_store
from stanchion.testing.conformance.harness import NewStore, StoreClock
from tests.servers.mongo import MongoServer


@pytest.fixture(scope="module")
def database(mongo_server: MongoServer) -> Iterator[str]:
    """The address of a database with the schema, which the tests of a module share."""
    name = f"test_{uuid.uuid4().hex}"
    url = mongo_server.url(name)
    with closing(open_store(url)) as store:
        store.setup()
    yield url
    mongo_server.drop_database(name)


@pytest.fixture
def clock() -> StoreClock:
    """The clock of all stores of a test."""
    return StoreClock()


@pytest.fixture
def new_store(database: str, clock: StoreClock) -> Iterator[NewStore]:
    """A function that opens the database, once more at each call."""
    with ExitStack() as stack:
        yield lambda: clock.governs(stack.enter_context(closing(open_store(database))))
