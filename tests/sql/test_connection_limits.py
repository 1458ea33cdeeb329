"""More threads than connections: each waits for its turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from tests.crash.scene import until
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer

from stanchion import InvalidInput, Stanchion, StoreUnavailable
from stanchion.stores.records import calls
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine import turns
from stanchion.stores.sql.engine.turns import Turns

THREADS = 30
LIMIT = 3


def in_threads(call: Callable[[int], Any], threads: int = THREADS) -> list[BaseException]:
    """Call it in so many threads at once; return the errors."""
    errors: list[BaseException] = []
    begin = threading.Barrier(threads)

    def target(n: int) -> None:
        begin.wait()
        try:
            call(n)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=target, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(120)
    assert not any(thread.is_alive() for thread in running)
    return errors


@pytest.fixture
def limited_pg(pg_store_url: str) -> Iterator[str]:
    """A store for a role that may have three connections."""
    role = str(make_url(pg_store_url).database).replace("test_", "few_")
    with psycopg.connect(pg_store_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {LIMIT}")
        owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        owner.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")
    yield pg_store_url.replace("stanchion@", f"{role}@")
    with psycopg.connect(pg_store_url, autocommit=True) as owner:
        until(
            lambda: not owner.execute("SELECT 1 FROM pg_stat_activity WHERE usename = %s", [role]).fetchone(), 60, role
        )
        owner.execute(f"DROP OWNED BY {role}")
        owner.execute(f"DROP ROLE {role}")


@pytest.fixture
def limited_mariadb(mariadb_url: str, mariadb_server: MariaDBServer) -> Iterator[str]:
    with closing(open_store(mariadb_url)) as store:
        store.setup()
    url = make_url(mariadb_url)
    user = f"few_{url.database}"[:60]
    mariadb_server.execute(
        f"CREATE USER {user} IDENTIFIED BY 'few' WITH MAX_USER_CONNECTIONS {LIMIT}",
        f"GRANT ALL ON {url.database}.* TO {user}",
    )
    yield url.set(username=user, password="few").render_as_string(hide_password=False)
    mariadb_server.execute(f"DROP USER {user}")


@pytest.mark.parametrize("kind", ["limited_pg", "limited_mariadb"])
def test_a_user_with_few_connections(kind: str, request: pytest.FixtureRequest) -> None:
    with closing(Stanchion(request.getfixturevalue(kind))) as app:
        queue = app.queue("orders")

        def push(n: int) -> None:
            for times in range(5):
                queue.push([n, times])

        assert in_threads(push) == []
        assert queue.size().ready == 5 * THREADS


@pytest.mark.parametrize("kind", ["pg_store_url", "mariadb_url"])
def test_the_size_of_the_pool_is_part_of_the_url(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    with closing(Stanchion(f"{url}{'&' if '?' in url else '?'}pool_size=2")) as app:
        app.setup()
        queue = app.queue("orders")
        assert in_threads(queue.push) == []
        assert queue.size().ready == THREADS
        pool = app.store.database.engine.pool  # type: ignore[attr-defined]
        assert pool.size() == 2
        assert pool.overflow() <= 0
        with app.transaction() as transaction:
            queue.push("joined", tx=transaction)
        assert queue.size().ready == THREADS + 1


@pytest.mark.parametrize("kind", ["pg_store_url", "mariadb_url"])
def test_open_transactions_leave_a_connection_for_their_calls(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    with closing(Stanchion(f"{url}{'&' if '?' in url else '?'}pool_size=3")) as app:
        app.setup()
        begun = threading.Barrier(2)

        def push(n: int) -> None:
            with app.transaction() as transaction:
                if n < 2:
                    begun.wait(60)  # both have a connection
                app.queue(f"orders{n}").push(n, tx=transaction)

        assert in_threads(push, 12) == []
        assert sum(queue.size().ready for queue in app.queues()) == 12


def test_transactions_that_wait_for_the_lock_of_a_file_have_no_connection(tmp_path: Path) -> None:
    with closing(Stanchion(f"sqlite:///{tmp_path}/jobs.db")) as app:
        pool = app.store.database.engine.pool  # type: ignore[attr-defined]
        most: list[int] = []

        def push(n: int) -> None:
            with app.transaction() as transaction:
                most.append(pool.checkedout())
                app.queue("orders").push(n, tx=transaction)

        assert in_threads(push) == []
        assert max(most) == 1


@pytest.mark.parametrize("given", ["0", "1", "-3", "many", "1001", "2.5"])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_size_that_is_none(scheme: str, given: str) -> None:
    with pytest.raises(InvalidInput, match="pool_size must be a number from 2 to"):
        open_store(f"{scheme}://user@host/database?pool_size={given}")


def test_connections_in_use_for_too_long(pg_store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Stanchion(f"{pg_store_url}?pool_size=2")) as app:
        queue = app.queue("orders")
        queue.push(1)
        monkeypatch.setattr(calls, "CALL_SECONDS", 1.0)
        lent = app.store.database.connection()  # type: ignore[attr-defined]
        with app.transaction(), lent, pytest.raises(StoreUnavailable, match="all 2 connections") as caught:
            queue.push(2)
        assert not caught.value.lasting
        queue.push(2)


def test_all_connections_come_back_after_a_restart(own_postgres_server: PostgresServer) -> None:
    """A refusal in an outage is no limit of the server."""
    url = own_postgres_server.create_database("jobs")
    with closing(Stanchion(url)) as app:
        app.setup()
        database = app.store.database  # type: ignore[attr-defined]
        queue = app.queue("orders")
        assert in_threads(queue.push) == []
        own_postgres_server.stop("immediate")
        errors: list[BaseException] = []
        pushing = threading.Thread(target=lambda: errors.extend(in_threads(queue.push)))
        pushing.start()
        time.sleep(1)
        own_postgres_server.start()
        pushing.join(120)
        assert not pushing.is_alive()
        assert errors == []
        together = threading.Barrier(12)

        def hold(_n: int) -> None:
            database.read(lambda run: (run.rows(text("SELECT 1")), together.wait(60)))

        assert in_threads(hold, threads=12) == []


def test_turns_come_in_order_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "GROW_SECONDS", 1000.0)
    given = Turns(4, "the store")
    for _ in range(4):
        given.take(1)
    assert given.refused("too many") is True
    assert given.refused("too many") is True
    order: list[int] = []

    def take(n: int) -> None:
        given.take(60)
        order.append(n)

    waiting = []
    for n in range(3):
        waiting.append(threading.Thread(target=take, args=(n,)))
        waiting[-1].start()
        until(lambda n=n: len(given._waiting) == n + 1, 60, "a waiter")  # type: ignore[misc]
    with pytest.raises(StoreUnavailable, match="too many"):
        given.take(0.01)
    given.give()
    waiting[0].join(60)
    given.opened()
    waiting[1].join(60)
    given.give()
    waiting[2].join(60)
    assert order == [0, 1, 2]
    for _ in range(3):
        given.give()
    given.take(1)
    assert given.refused("it is down") is False
    given.give()
    monkeypatch.setattr(turns, "GROW_SECONDS", 0.001)
    until(lambda: given._allowed() == 4, 60, "it grows")
