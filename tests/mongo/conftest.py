"""A database with the schema for the tests of this directory."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.registry import open_store
from stanchion_conformance.harness import NewStore, StoreClock
from tests.mongo.cutting import Check, Cutting
from tests.mongo.guillotine import Guillotine
from tests.servers.mongo import MongoServer


@pytest.fixture(scope="module")
def database(mongo_server: MongoServer) -> Iterator[str]:
    """The address of a database with the schema, which the tests of a module share."""
    with mongo_server.database() as url:
        yield url


@pytest.fixture
def clock() -> StoreClock:
    """The clock of all stores of a test."""
    return StoreClock()


@pytest.fixture
def new_store(database: str, clock: StoreClock) -> Iterator[NewStore]:
    """A function that opens the database, once more at each call."""
    with ExitStack() as stack:
        yield lambda: clock.governs(stack.enter_context(closing(open_store(database))))


@pytest.fixture
def cutting(new_store: NewStore, clock: StoreClock, monkeypatch: pytest.MonkeyPatch) -> Callable[[Check], Cutting]:
    """Cut acts, and check what they have left."""
    return lambda check: Cutting(new_store, clock, Guillotine(monkeypatch), check)
