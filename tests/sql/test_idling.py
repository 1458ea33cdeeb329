"""Transactions whose client vanishes without a word."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from stanchion import Stanchion
from stanchion.stores.mariadb import dialect as mariadb
from stanchion.stores.postgres import dialect as postgres
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.store import SqlStore

NAP = 2.5


@pytest.fixture(params=["pg_url", "mariadb_url"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A store whose transactions may be idle for a second."""
    for module in (postgres, mariadb):
        monkeypatch.setattr(module, "IDLE_SECONDS", 1)
    store = open_store(request.getfixturevalue(request.param))
    assert isinstance(store, SqlStore)
    store.setup()
    yield store
    store.close()


def test_ours_ends_and_is_begun_anew_when_the_client_was_only_slow(store: SqlStore) -> None:
    repeats = []

    def work(run: Runner, again: bool) -> int:
        repeats.append(again)
        store.database.clock(run)
        if not again:
            time.sleep(NAP)
        return store.database.clock(run)

    assert store.database.write(work)
    assert repeats[:2] == [False, True]


def test_a_caller_takes_its_time(store: SqlStore) -> None:
    app = Stanchion(store=store)
    with app.transaction() as tx:
        app.queue("q").push(1, tx=tx)
        time.sleep(NAP)
        app.queue("q").push(2, tx=tx)
    assert app.queue("q").size().ready == 2
