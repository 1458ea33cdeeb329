"""The store behind a manager behaves as every store does: over the memory store, and at night over PostgreSQL."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from stanchion.stores.memory import MemoryStore
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore
from tests.conformance.through_manager import RARELY, Client, any_semaphores  # noqa: F401 - a fixture of all cases
from tests.servers.manager import ManagerThread

del TestFeedInTransactions, TestJoining, TestTogetherInTransactions, TestAnotherDatabase  # noqa: F821
del TestPreparedJobs  # noqa: F821
# A manager gives back lost jobs by the default policy, as it does not know the tasks of its clients.
del TestDelayOfTheTask  # noqa: F821
del TestResultTables, TestRefusedRows  # noqa: F821


@pytest.fixture
def store_factory() -> Iterator[NewStore]:
    with ManagerThread(MemoryStore(), heartbeat=RARELY) as manager, ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Client(manager)))
