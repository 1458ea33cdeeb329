"""The MariaDB store behaves as every store does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.servers.mariadb import MariaDBServer

del TestRefusing  # noqa: F821
del TestPushSignal, TestSignalledEnds  # noqa: F821
del TestNoTables  # noqa: F821

pytestmark = pytest.mark.slow

TABLES = (
    *("jobs", "history", "queues", "counter_events", "counts", "workers"),
    *("slots", "flow_nodes", "flow_ends", "values", "stage", "stage_prepared"),
)


@pytest.fixture(scope="module")
def database(mariadb_server: MariaDBServer) -> str:
    """A database with the schema, which each test finds empty."""
    url = mariadb_server.create_database("conformance")
    with closing(open_store(url)) as store:
        store.setup()
    return url


@pytest.fixture
def store_factory(database: str, mariadb_server: MariaDBServer) -> Iterator[NewStore]:
    mariadb_server.execute(*(f"DELETE FROM conformance.stanchion_{name}" for name in TABLES))
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(database)))


@pytest.fixture
def elsewhere(mariadb_url: str) -> Iterator[Store]:
    with closing(open_store(mariadb_url)) as store:
        store.setup()
        yield store
