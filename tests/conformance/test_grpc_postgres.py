"""The store behind a manager over PostgreSQL behaves as every store does, with the database beside it too."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.conformance.through_manager import RARELY, Client, any_semaphores  # noqa: F401 - a fixture of all cases
from tests.servers.manager import ManagerThread

del TestRefusing, TestPreparedJobs  # noqa: F821
# A manager gives back lost jobs by the default policy, as it does not know the tasks of its clients.
del TestDelayOfTheTask  # noqa: F821
del TestNoTables  # noqa: F821

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture
def store_factory(pg_store_url: str) -> Iterator[NewStore]:
    with (
        closing(open_store(pg_store_url)) as behind,
        ManagerThread(behind, heartbeat=RARELY) as manager,
        ExitStack() as stack,
    ):
        yield lambda: stack.enter_context(closing(Client(manager, open_store(pg_store_url))))


@pytest.fixture
def elsewhere(pg_url: str) -> Iterator[Store]:
    with closing(open_store(pg_url)) as store:
        store.setup()
        yield store
