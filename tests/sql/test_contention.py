"""Processes that contend for limited jobs never wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from benchmarks.limits_contention import mariadb_deadlocks, postgresql_deadlocks
from stanchion.stores.registry import open_store
from stanchion.stores.sql.store import SqlStore
from tests.sql.contending import Contender, contend, declare

pytestmark = pytest.mark.slow


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> tuple[str, Callable[[], int]]:
    """The URL of an empty, set-up store, and what counts the deadlocks of its server."""
    if request.param == "postgresql":
        url = request.getfixturevalue("pg_url")
        found = request.getfixturevalue("postgres_server")
        count = lambda: postgresql_deadlocks(found.url())  # noqa: E731
    else:
        url = request.getfixturevalue("mariadb_url")
        found = request.getfixturevalue("mariadb_server")
        count = lambda: mariadb_deadlocks(found)  # noqa: E731
    with closing(open_store(url)) as store:
        store.setup()
        declare(store)
    return url, count


def test_four_processes_of_every_verb_meet_in_no_deadlock(server: tuple[str, Callable[[], int]]) -> None:
    url, deadlocks = server
    before = deadlocks()
    done = contend(url, "mixed", 4, "--turns", "50")
    assert deadlocks() - before == 0
    assert [one.errors for one in done] == [[]] * 4
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        Contender(store, "mixed", 9).drain()
        assert store.sizes("contended").total == 0, "every job came to its end"
        with store.database.connection() as connection:
            used = connection.exec_driver_sql("SELECT name, used FROM stanchion_gates WHERE used <> 0").fetchall()
        assert used == []
