"""A server with a small max_allowed_packet: what is too large for it is refused before it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest
from sqlalchemy import create_engine, make_url
from tests.servers.mariadb import MariaDBServer
from tests.worker.conftest import until, working

from stanchion import Bury, Cancel, JobState, Stanchion
from stanchion.core.ids import new_id, new_ids
from stanchion.errors import InvalidInput
from stanchion.stores.mariadb.dialect import MariaDBDialect
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit, Move
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.failure_messages import message_of_failure

pytestmark = pytest.mark.slow

LIMIT = "max_allowed_packet is 1,048,576"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDBServer]:
    with MariaDBServer(durable=False, settings={"max-allowed-packet": "1M"}) as server:
        yield server


@pytest.fixture
def url(server: MariaDBServer) -> str:
    return server.create_database(f"packets_{new_id()[-12:]}")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        store.setup()
        yield store


@pytest.mark.parametrize(
    "size",
    [1_048_000, 17_000_000, *(pytest.param(size, marks=pytest.mark.nightly) for size in (3_000_000, 40_000_000))],
)
def test_a_payload_too_large_is_refused_with_the_limit(store: Store, size: int) -> None:
    with pytest.raises(InvalidInput, match=LIMIT):
        store.push([NewJob(new_id(), "orders", '"' + "x" * size + '"')])
    assert store.push([NewJob(new_id(), "orders", '"' + "x" * 1_040_000 + '"')])


@pytest.mark.parametrize(
    "letter", ['\\"', "😀", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("x", "\\\\", "'", "é", "€"))]
)
def test_a_batch_is_sent_in_packets_that_fit(store: Store, letter: str) -> None:
    payload = f'"{letter * 20_000}"'
    store.push([NewJob(one, "orders", payload) for one in new_ids(120)])
    rows = store.claim(Claim("orders", 60, "t")).rows
    assert store.settle([Commit(row.lease, result=row.payload) for row in rows]) == [JobState.DONE] * 60
    rows = store.claim(Claim("orders", 60, "u")).rows
    assert store.settle([Move(row.lease, "next", payload) for row in rows]) == [JobState.READY] * 60
    assert {row.payload for row in store.claim(Claim("next", 60, "v")).rows} == {payload}


def test_a_refusal_costs_no_connection(store: Store, server: MariaDBServer) -> None:
    store.push([NewJob(new_id(), "orders", "1")])
    (row,) = store.claim(Claim("orders", 1, "t")).rows
    with closing(server.connect_as_root()) as root:
        before = _connections(root)
        for _ in range(3):
            with pytest.raises(InvalidInput, match=LIMIT):
                store.settle([Commit(row.lease, result='"' + '\\"' * 500_000 + '"')])
        assert store.settle([Commit(row.lease, result="1")]) == [JobState.DONE]
        assert _connections(root) == before


def _connections(root: pymysql.Connection[Any]) -> int:
    """Return how many connections were made to the server so far."""
    with root.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Connections'")
        return int(cursor.fetchall()[0][1])


@pytest.fixture
def connected(url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A caller's connection, in a transaction."""
    if request.param == "sqlalchemy":
        with create_engine(make_url(url).set(drivername="mysql+pymysql")).connect() as connection:
            yield connection
    else:
        to = make_url(url)
        given = {"host": to.host, "port": to.port, "user": to.username, "password": to.password}
        with closing(pymysql.connect(**given, database=to.database)) as connection:  # type: ignore[call-overload]
            connection.begin()
            yield connection


@pytest.mark.parametrize("connected", ["pymysql", "sqlalchemy"], indirect=True)
def test_in_a_transaction_of_the_caller(store: Store, connected: Any) -> None:
    app = Stanchion(store=store)
    app.queue("orders").push({})
    (job,) = app.queue("orders").reserve()
    with pytest.raises(InvalidInput, match=LIMIT):
        job.commit('"' * 500_000, tx=connected)
    connected.rollback()
    job.commit(1)


def test_outcomes_too_large_stop_no_worker(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    app = Stanchion(store=store)

    @app.task
    def task(how: str) -> str | None:
        match how:
            case "bury":
                raise Bury("y" * 20_000_000)
            case "cancel":
                raise Cancel("y" * 20_000_000)
            case "large":
                return '"' * 500_000
        return how

    with working(app):
        first = task.enqueue_many([("bury",), ("cancel",), ("large",), *[("fine",)] * 20])
        until(lambda: all(handle.state.final for handle in first))
        assert task.enqueue("later").result(timeout=60) == "later"
    bury, cancel, large, *fine = first
    assert (bury.state, cancel.state) == (JobState.DEAD, JobState.CANCELLED)
    assert {handle.state for handle in fine} == {JobState.DONE}
    assert {handle.job().attempts for handle in first} == {1}
    assert large.state is JobState.DEAD
    assert LIMIT in large.job().errors[-1]["error"]
    assert "password" not in caplog.text


@pytest.mark.parametrize(
    ("number", "advice"),
    [(1153, "raise max_allowed_packet"), (1301, "raise max_allowed_packet"), (2003, "the server runs"), (2013, "URL")],
)
def test_only_what_is_too_large_is_told_of_the_limit_of_packets(number: int, advice: str) -> None:
    said = message_of_failure(
        MariaDBDialect(), make_url("mysql://me@h/x"), pymysql.err.OperationalError(number, "the cause")
    )
    assert advice in said
    assert ("max_allowed_packet" in said) == (number in (1153, 1301))
