"""The PostgreSQL store behaves the same with its tables in a schema that no connection's search_path names."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.conformance.test_postgres import EMPTY
from tests.conformance.variants import leave_out_the_model
from tests.conftest import NewDatabase

del TestRefusing  # noqa: F821
del TestNoTables  # noqa: F821
leave_out_the_model(globals())

SCHEMA = "queues"


@pytest.fixture(scope="module")
def server_database(new_pg_database: NewDatabase) -> str:
    """A database without tables in the default schema, so that a statement which names none fails."""
    url = new_pg_database()
    with closing(open_store(f"{url}?schema={SCHEMA}")) as store:
        store.setup()
    return url


@pytest.fixture
def store_factory(server_database: str) -> Iterator[NewStore]:
    with psycopg.connect(server_database, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {SCHEMA}")
        connection.execute(f"DO $$ BEGIN {EMPTY} END $$")
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(f"{server_database}?schema={SCHEMA}")))


@pytest.fixture
def elsewhere(pg_url: str) -> Iterator[Store]:
    """A store in another database."""
    with closing(open_store(pg_url)) as store:
        store.setup()
        yield store
