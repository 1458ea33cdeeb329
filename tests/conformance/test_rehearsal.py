"""A store in memory that follows transactions, as `app.testing()` uses it, behaves in them as a database does."""

import pytest

from stanchion.stores.memory import MemoryStore, Rehearsal
from stanchion_conformance import *  # noqa: F403 - the fixtures
from stanchion_conformance.harness import NewStore

for _name in [name for name in globals() if name.startswith("Test")]:
    if _name not in ("TestJoining", "TestTogetherInTransactions"):
        del globals()[_name]


@pytest.fixture
def store_factory() -> NewStore:
    store = MemoryStore(rehearsal=Rehearsal(lambda: None))
    return lambda: store
