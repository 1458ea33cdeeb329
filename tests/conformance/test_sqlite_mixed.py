"""The SQLite store behaves so when half of its plain pushes, chosen at random, go the general way."""

from random import Random

import pytest

from stanchion.stores.sqlite.plain import PlainPushes
from stanchion_conformance import *  # noqa: F403
from tests.conformance.test_sqlite import database, elsewhere, store_factory  # noqa: F401
from tests.conformance.variants import leave_out_the_model

leave_out_the_model(globals())
del TestRefusing  # noqa: F821
del TestNoTables  # noqa: F821


@pytest.fixture(autouse=True)
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the way of each call by a generator that the name of the case seeds: a repeated run chooses the same."""
    random, takes = Random(request.node.nodeid), PlainPushes.takes
    monkeypatch.setattr(PlainPushes, "takes", lambda *given: random.random() < 0.5 and takes(*given))
