"""A MariaDB server that goes away, falls silent, or refuses a packet."""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress

import pymysql
import pytest
from tests.crash.scene import until
from tests.servers.mariadb import MariaDBServer
from tests.sql.mariadb.sessions import at_once

from stanchion import Stanchion
from stanchion.core.backoff import retry_until
from stanchion.core.ids import new_id, new_ids
from stanchion.errors import StoreUnavailable
from stanchion.stores.mariadb.dialect import MariaDBDialect
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.dialect import Fault
from stanchion_conformance.harness import counts_of, sizes_of


@pytest.mark.parametrize("number", [1205, 1213, 1317, 1969, 3024])
def test_busy(number: int) -> None:
    assert MariaDBDialect().fault(pymysql.OperationalError(number, "")) is Fault.BUSY


@pytest.mark.parametrize("number", [0, 1040, 1053, 1290, 1836, 1927, 2003, 2006, 2013, 2014, 2055])
def test_lost_for_now(number: int) -> None:
    error = pymysql.OperationalError(number, "")
    assert MariaDBDialect().fault(error) is Fault.LOST
    assert MariaDBDialect().worth_retrying(error)


@pytest.mark.parametrize("number", [1044, 1045, 1049])
def test_lost_for_good(number: int) -> None:
    error = pymysql.OperationalError(number, "")
    assert MariaDBDialect().fault(error) is Fault.LOST
    assert not MariaDBDialect().worth_retrying(error)


@pytest.mark.parametrize("number", [1153, 1264, 1366, 1406])
def test_data(number: int) -> None:
    assert MariaDBDialect().fault(pymysql.DataError(number, "")) is Fault.DATA


@pytest.mark.parametrize("error", [pymysql.IntegrityError(1062, ""), pymysql.ProgrammingError(1146, ""), ValueError()])
def test_other_faults(error: Exception) -> None:
    assert MariaDBDialect().fault(error) is Fault.OTHER


@pytest.mark.nightly
def test_killed_connections_lose_nothing(app: Stanchion, mariadb_server: MariaDBServer) -> None:
    queue = app.queue("orders")
    ended = threading.Event()
    calls: list[None] = []

    def kill() -> None:
        # After some calls and not after some time, in which a slow machine gets nothing done.
        known = 0
        with mariadb_server.connect_as_root() as connection, connection.cursor() as cursor:
            while not ended.wait(0.01):
                if len(calls) < known + 5:
                    continue
                known = len(calls)
                cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", [mariadb_server.user])
                for (one,) in cursor.fetchall():
                    with suppress(pymysql.OperationalError):  # it has just gone by itself
                        cursor.execute(f"KILL {one}")

    def work() -> None:
        for n in range(40):
            queue.push_many([n] * 5)
            calls.append(None)
            for job in queue.reserve(5):
                job.commit()
                calls.append(None)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        at_once([work, work, work])
    finally:
        ended.set()
        killer.join()
    while jobs := queue.reserve(100):
        for job in jobs:
            job.commit()
    assert queue.counts().pushed == 600
    assert queue.counts().committed == 600


@pytest.mark.slow
def test_a_killed_server_has_every_answered_push(own_mariadb_server: MariaDBServer) -> None:
    with closing(open_store(own_mariadb_server.create_database("jobs"))) as store:
        store.setup()
        answered: list[str] = []
        ended = threading.Event()

        def push() -> None:
            while not ended.is_set():
                jobs = [NewJob(one, "orders", "1") for one in new_ids(3)]
                pushed = retry_until(lambda _repeat, jobs=jobs: store.push(jobs), time.monotonic() + 60)  # type: ignore[misc]
                answered.extend(one.id for one in pushed)

        def answer_more() -> None:
            enough = len(answered) + 60
            until(lambda: len(answered) >= enough, 60, "pushes are answered")

        thread = threading.Thread(target=push)
        thread.start()
        for _ in range(2):
            answer_more()
            own_mariadb_server.kill()
            own_mariadb_server.start()
        answer_more()
        ended.set()
        thread.join(60)
        assert sizes_of(store, "orders").total == len(answered) == counts_of(store, "orders").pushed
        assert set(store.fetch(answered)) == set(answered)


@pytest.mark.slow
@pytest.mark.usefixtures("short_calls")
def test_a_silent_server_is_not_waited_for_forever(own_mariadb_server: MariaDBServer) -> None:
    with closing(open_store(own_mariadb_server.create_database("jobs"))) as store:
        store.setup()
        store.now()
        with own_mariadb_server.silent(), pytest.raises(StoreUnavailable):
            store.push([NewJob(new_id(), "orders", "1")])
        assert store.push([NewJob(new_id(), "orders", "1")])
