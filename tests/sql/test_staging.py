"""Publications that are cut off in the middle, or whose answer is lost, are done once or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from operator import attrgetter
from typing import Any

import psycopg
import pymysql
import pytest
from tests.servers.postgres import PostgresServer

from stanchion.core.ids import new_ids
from stanchion.core.spark_errors import StagedJobsLost
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.staging import staging
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import counts_of, sizes_of

VALUE = ValueChange("stream", "s", "acked 1 by me", 0)


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        yield store


@pytest.fixture(params=["pg_url", "mariadb_url"])
def remote(request: pytest.FixtureRequest) -> Iterator[SqlStore]:
    """A store behind a connection that can break."""
    with closing(open_store(request.getfixturevalue(request.param))) as store:
        assert isinstance(store, SqlStore)
        store.setup()
        yield store


def jobs(number: int, **fields: Any) -> list[NewJob]:
    return [NewJob(one, "out", str(n), **fields) for n, one in enumerate(new_ids(number))]


def ready(store: SqlStore, value: ValueChange | None = VALUE) -> Publication:
    """Have 3 jobs reserved and 50 staged; return the publication of these that finishes those."""
    store.push([NewJob(one, "in", "1") for one in new_ids(3)])
    assert store.claim(Claim("in", 3, "token", "w", rows=False)).reserved == 3
    store.stage("write", "a", jobs(50))
    return Publication("write", (("a", 50),), value, Finish("in", "token", 3))


def assert_done_once(store: SqlStore) -> None:
    assert (sizes_of(store, "out").ready, counts_of(store, "out").pushed) == (50, 50)
    assert (sizes_of(store, "in").total, counts_of(store, "in").committed) == (0, 3)


def assert_not_done(store: SqlStore) -> None:
    assert (sizes_of(store, "out").total, counts_of(store, "out").pushed) == (0, 0)
    assert (sizes_of(store, "in").running, counts_of(store, "in").committed) == (3, 0)
    assert store.values("stream") == []


def kill_me(store: SqlStore, run: Runner) -> None:
    """Have the server end the connection that runs this."""
    if store.dialect.capabilities.name == "postgresql":
        ask, kill = "SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"
    else:
        ask, kill = "SELECT CONNECTION_ID()", "KILL {}"
    run.cursor.execute(ask)  # type: ignore[attr-defined]
    ((me,),) = run.cursor.fetchall()  # type: ignore[attr-defined]
    with store.database.connection() as other:
        other.exec_driver_sql(kill.format(me))
    time.sleep(0.2)


@pytest.mark.one_in_each("step", "value")
@pytest.mark.parametrize(
    "step",
    [
        "_parts.staging._values.write",
        "_parts.staging._finish",
        "_parts.queues.use_lanes",
        "_parts.staging._staged.store",
        "_parts.staging._clear",
    ],
)
@pytest.mark.parametrize("value", [VALUE, None])
def test_a_connection_killed_in_the_middle(
    remote: SqlStore, monkeypatch: pytest.MonkeyPatch, step: str, value: ValueChange | None
) -> None:
    publication = ready(remote, value)
    remote.stage("write", "lost", jobs(5))
    *path, name = step.split(".")
    owner = attrgetter(".".join(path))(remote) if path else remote
    done: Callable[..., Any] = getattr(owner, name)
    kills = iter([True])

    def and_killed(run: Runner, *given: Any) -> Any:
        result = done(run, *given)
        if next(kills, False):
            kill_me(remote, run)
        return result

    monkeypatch.setattr(owner, name, and_killed)
    assert remote.publish(publication)
    assert next(kills, None) is None
    assert_done_once(remote)
    assert not remote.publish(publication)


@pytest.mark.parametrize("value", [VALUE, None])
def test_an_answer_that_is_lost(remote: SqlStore, monkeypatch: pytest.MonkeyPatch, value: ValueChange | None) -> None:
    publication = ready(remote, value)
    is_postgres = remote.dialect.capabilities.name == "postgresql"
    lost = psycopg.OperationalError("lost") if is_postgres else pymysql.OperationalError(2013, "lost")
    attempt = remote.database._attempt
    losses = iter([lost])

    def and_lost(work: Any, again: bool, transaction: bool, *rest: Any, **options: Any) -> Any:
        answer = attempt(work, again, transaction, *rest, **options)
        if transaction and (error := next(losses, None)) is not None:
            raise error
        return answer

    remote._parts.queues.make({"out"})
    monkeypatch.setattr(remote.database, "_attempt", and_lost)
    assert remote.publish(publication), "it is told that it was done by its own first try"
    assert next(losses, None) is None
    assert_done_once(remote)
    assert not remote.publish(publication)


def test_an_error_in_the_middle_changes_nothing(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    publication = ready(store)
    with monkeypatch.context() as patched:
        patched.setattr(store._parts.staging._staged, "store", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.publish(publication)
    assert_not_done(store)
    assert store.publish(publication)
    assert_done_once(store)


def test_by_many_small_ranges(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_AT_ONCE", 7)
    monkeypatch.setattr(staging, "_COMMITTED_AT_ONCE", 2)
    publication = ready(store)
    more = jobs(30)
    keyed = jobs(8, key="k")
    store.stage("write", "b", [*more, *keyed])
    store.stage("write", "dropped", jobs(20))
    assert store.publish(publication._replace(attempts=(("a", 50), ("b", 38))))
    assert counts_of(store, "out").pushed == 81
    assert counts_of(store, "in").committed == 3
    assert not store.publish(Publication("write", (("dropped", 20),), VALUE))
    with pytest.raises(StagedJobsLost):
        store.publish(Publication("write", (("dropped", 20),)))


def test_ids_that_are_live_already(store: SqlStore) -> None:
    staged = jobs(10)
    store.push(staged[:4])
    store.stage("write", "a", staged)
    assert store.publish(Publication("write", (("a", 10),)))
    assert (sizes_of(store, "out").ready, counts_of(store, "out").pushed) == (10, 10)


def test_a_stage_that_a_crash_of_the_server_emptied(own_postgres_server: PostgresServer) -> None:
    url = own_postgres_server.create_database("crashed")
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        store.setup()
        publication = ready(store)
        own_postgres_server.kill()
        own_postgres_server.start()
        with suppress(StoreUnavailable):
            store.now()
        with pytest.raises(StagedJobsLost):
            store.publish(publication)
        assert_not_done(store)
        store.stage("write", "again", jobs(50))
        assert store.publish(publication._replace(attempts=(("again", 50),)))
        assert_done_once(store)
        assert store.values("stream") == [VersionedValue("s", "acked 1 by me", 1)]
