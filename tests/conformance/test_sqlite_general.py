"""The SQLite store behaves so without plain pushes and first reads, too: the general way carries out every call."""

import pytest

from stanchion.stores.sqlite.first_reads import FirstReads
from stanchion.stores.sqlite.plain import PlainPushes
from stanchion_conformance import *  # noqa: F403
from tests.conformance.test_sqlite import database, elsewhere, store_factory  # noqa: F401
from tests.conformance.variants import leave_out_the_model

leave_out_the_model(globals())
del TestRefusing  # noqa: F821
del TestNoTables  # noqa: F821


@pytest.fixture(autouse=True)
def general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call take a short way."""
    monkeypatch.setattr(PlainPushes, "takes", lambda *_: False)
    monkeypatch.setattr(FirstReads, "_tried", lambda *_: None)
