"""The PostgreSQL store behaves as every store does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.conftest import NewDatabase

del TestRefusing  # noqa: F821
del TestNoTables  # noqa: F821


TABLES = (
    *("jobs", "history", "queues", "counter_events", "counts", "workers"),
    *("slots", "flow_nodes", "flow_ends", "values", "stage", "stage_prepared"),
)
EMPTY = "\n".join(
    f"IF EXISTS (SELECT FROM stanchion_{name}) THEN TRUNCATE stanchion_{name}; END IF;" for name in TABLES
)
"""Makes new files for those tables only that are in use, which is what takes long."""


@pytest.fixture(scope="module")
def database(new_pg_database: NewDatabase) -> str:
    """A database with the schema, which each test finds empty."""
    url = new_pg_database()
    with closing(open_store(url)) as store:
        store.setup()
    return url


@pytest.fixture
def store_factory(database: str) -> Iterator[NewStore]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"DO $$ BEGIN {EMPTY} END $$")
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(database)))


@pytest.fixture
def elsewhere(pg_url: str) -> Iterator[Store]:
    with closing(open_store(pg_url)) as store:
        store.setup()
        yield store
