"""The PostgreSQL store behaves as every store does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion.testing.conformance import *  # noqa: F403
from stanchion.testing.conformance.harness import NewStore

del TestRefusing  # noqa: F821


@pytest.fixture
def store_factory(pg_url: str) -> Iterator[NewStore]:
    with ExitStack() as stack:

        def open_once_more() -> Store:
            store = open_store(pg_url)
            store.setup()
            return stack.enter_context(closing(store))

        yield open_once_more
