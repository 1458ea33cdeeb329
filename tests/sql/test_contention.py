"""Processes that contend for limited jobs never wait for each other in a circle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple

import psycopg
import pytest
from benchmarks.limits_contention import mariadb_deadlocks, postgresql_deadlocks
from sqlalchemy.engine import Connection
from tests.servers.mariadb import MariaDBServer
from tests.sql.contending import Contender, contend, declare

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.records.flows import FlowNode, OpenFlow, StopFlow
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.rules.flows import FlowPosition
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import sizes_of

pytestmark = pytest.mark.slow


class Server(NamedTuple):
    """The URL of an empty, set-up store, and what its server counts: deadlocks so far, transactions that wait."""

    url: str
    deadlocks: Callable[[], int]
    waiting: Callable[[], int]


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Server:
    """A server whose locks are looked at."""
    if request.param == "postgresql":
        url, found = request.getfixturevalue("pg_url"), request.getfixturevalue("postgres_server")
        counts = (lambda: postgresql_deadlocks(found.url()), lambda: waiting_on_postgresql(found.url()))
    else:
        url, found = request.getfixturevalue("mariadb_url"), request.getfixturevalue("mariadb_server")
        counts = (lambda: mariadb_deadlocks(found), lambda: waiting_on_mariadb(found))
    with closing(open_store(url)) as store:
        store.setup()
        declare(store)
    return Server(url, *counts)


def waiting_on_postgresql(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return int(row[0]) if row else 0


def waiting_on_mariadb(server: MariaDBServer) -> int:
    with server.connect_as_root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
        row = cursor.fetchone()
    return int(row[0]) if row else 0


@pytest.mark.nightly_except("postgresql")
def test_four_processes_of_every_verb_meet_in_no_deadlock(server: Server) -> None:
    url, deadlocks, _ = server
    before = deadlocks()
    done = contend(url, "mixed", 4, "--turns", "50")
    assert deadlocks() - before == 0
    assert [one.errors for one in done] == [[]] * 4
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        Contender(store, "mixed", 9).drain()
        assert sizes_of(store, "contended").total == 0, "every job came to its end"
        with store.database.connection() as connection:
            used = connection.exec_driver_sql(
                "SELECT kind, queue, name, used FROM stanchion_slots WHERE used <> 0"
            ).fetchall()
        assert used == []


# -- one step at a time


@pytest.fixture
def another(server: Server) -> Iterator[Connection]:
    """Another program's connection, in a transaction that goes on."""
    with closing(open_store(server.url)) as store:
        assert isinstance(store, SqlStore)
        with store.database.transaction() as connection:
            yield connection


@pytest.fixture
def store(server: Server) -> Iterator[SqlStore]:
    with closing(open_store(server.url)) as store:
        assert isinstance(store, SqlStore)
        yield store


def lock(connection: Connection, table: str, row: str) -> None:
    """Lock a row that is not locked."""
    connection.exec_driver_sql(f"SELECT 1 FROM {table} WHERE id = '{row}' FOR UPDATE NOWAIT")


def wait_until_it_waits(server: Server) -> None:
    """Wait until another transaction waits for a lock."""
    until = time.monotonic() + 60
    while not server.waiting():
        assert time.monotonic() < until
        time.sleep(0.15)  # MariaDB looks again only when it was not asked for a tenth of a second


def test_a_flow_is_stopped_from_below_upwards(server: Server, store: SqlStore, another: Connection) -> None:
    root, child = new_ids(2)
    nodes = [FlowNode(root, root, created_at=0), FlowNode(child, root, parent=f"{root}:0")]
    store.change_flows([OpenFlow(nodes, [NewJob(new_id(), "q", "1", **FlowPosition(root, child, 0)._asdict())])])
    before = server.deadlocks()
    with ThreadPoolExecutor() as pool:
        lock(another, "stanchion_flow_nodes", child)  # as the end of its member does, which goes on to the root
        stopping = pool.submit(store.change_flows, [StopFlow(root)])
        wait_until_it_waits(server)
        lock(another, "stanchion_flow_nodes", root)
        another.exec_driver_sql("COMMIT")
        assert stopping.result()
    assert server.deadlocks() == before


def test_a_queue_is_deleted_in_the_order_of_its_jobs_ids(server: Server, store: SqlStore, another: Connection) -> None:
    first, second = new_ids(2)
    store.push([NewJob(second, "q", "1", priority=1, order_key="k")])
    store.push([NewJob(first, "q", "1")])
    before = server.deadlocks()
    with ThreadPoolExecutor() as pool:
        lock(another, "stanchion_jobs", first)
        deleting = pool.submit(store.drop_queue, "q")
        wait_until_it_waits(server)
        lock(another, "stanchion_jobs", second)
        another.exec_driver_sql(f"DELETE FROM stanchion_jobs WHERE id IN ('{first}', '{second}')")
        another.exec_driver_sql("COMMIT")
        deleting.result()
    assert server.deadlocks() == before
    assert sizes_of(store, "q").total == 0


@pytest.mark.parametrize("on_duplicate", ["return", "replace"])
def test_who_meets_a_key_does_not_hold_it_while_the_job_ends(
    server: Server, store: SqlStore, another: Connection, on_duplicate: str
) -> None:
    holder, late = new_ids(2)
    store.push([NewJob(holder, "q", "1", key="k")])
    before = server.deadlocks()
    with ThreadPoolExecutor() as pool:
        lock(another, "stanchion_jobs", holder)  # as its end does, which takes it from the index of keys behind that
        pushing = pool.submit(store.push, [NewJob(late, "q", "2", key="k", on_duplicate=on_duplicate)])
        wait_until_it_waits(server)
        another.exec_driver_sql(f"DELETE FROM stanchion_jobs WHERE id = '{holder}'")
        another.exec_driver_sql("COMMIT")
        assert [(one.id, one.duplicate) for one in pushing.result()] == [(late, False)]
    assert server.deadlocks() == before
