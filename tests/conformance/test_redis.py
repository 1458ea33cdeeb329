"""The Redis store behaves as every store does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore

del TestFeedInTransactions, TestJoining, TestTogetherInTransactions, TestAnotherDatabase  # noqa: F821
del TestResultTables, TestRefusedRows  # noqa: F821


@pytest.fixture
def store_factory(redis_url: str) -> Iterator[NewStore]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(redis_url)))
