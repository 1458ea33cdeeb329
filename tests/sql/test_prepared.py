"""Prepared jobs whose publication is cut off at any step, or whose answer is lost, are stored once or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from operator import attrgetter
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.servers.postgres import PostgresServer

from stanchion.core.ids import new_ids
from stanchion.core.spark_errors import LeasesLost, StagedJobsLost
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.registry import open_store
from stanchion.stores.rules import prepared as rules
from stanchion.stores.sql.engine.runner import CursorRunner, Runner
from stanchion.stores.sql.staging import prepared as preparing
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import counts_of, sizes_of

VALUE = ValueChange("stream", "s", "acked 1 by me", 0)


@pytest.fixture(params=["sqlite", "pg_store_url", pytest.param("mariadb_url", marks=pytest.mark.nightly)])
def store(request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A store that keeps few jobs in a row of the stage."""
    monkeypatch.setattr(rules, "_BYTES", 1000)
    monkeypatch.setattr(preparing, "_AT_ONCE", 2)
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else request.getfixturevalue(request.param)
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        store.setup()
        yield store


def columns(number: int, queue: str = "out") -> PlainColumns:
    return PlainColumns(queue, pa.array(new_ids(number)), pa.array([f'{{"n":{n}}}' for n in range(number)]))


def prepared(store: SqlStore, number: int, queue: str = "out") -> list[Prepared]:
    found: list[Prepared] = store.prepare(columns(number, queue))
    return found


def ready(store: SqlStore, value: ValueChange | None = VALUE) -> tuple[Publication, Sequence[Prepared]]:
    """Have 3 jobs reserved, 40 staged and 10 carried; return the publication of these that finishes those."""
    store.push([NewJob(one, "in", "1") for one in new_ids(3)])
    assert store.claim(Claim("in", 3, "token", "w", rows=False)).reserved == 3
    store.stage_prepared("write", "a", prepared(store, 35))
    store.stage("write", "a", [NewJob(one, "out", "1", key=str(n)) for n, one in enumerate(new_ids(5))])
    store.stage_prepared("write", "lost", prepared(store, 7))
    return Publication("write", (("a", 40),), value, Finish("in", "token", 3)), prepared(store, 10)


def staged(store: SqlStore) -> int:
    with store.transaction() as connection:
        asked = "SELECT (SELECT count(*) FROM stanchion_stage) + (SELECT count(*) FROM stanchion_stage_prepared)"
        return int(connection.exec_driver_sql(asked).scalar() or 0)


def assert_done_once(store: SqlStore) -> None:
    assert (sizes_of(store, "out").ready, counts_of(store, "out").pushed) == (50, 50)
    assert (sizes_of(store, "in").total, counts_of(store, "in").committed) == (0, 3)
    assert staged(store) == 0


def assert_not_done(store: SqlStore) -> None:
    assert (sizes_of(store, "out").total, counts_of(store, "out").pushed) == (0, 0)
    assert (sizes_of(store, "in").running, counts_of(store, "in").committed) == (3, 0)
    assert store.values("stream") == []


def test_in_parts(store: SqlStore) -> None:
    parts = prepared(store, 100)
    assert len(parts) > 10
    assert sum(part.jobs for part in parts) == 100
    big = store.prepare(PlainColumns("out", pa.array(new_ids(1)), pa.array(['{"a":"' + "x" * 9000 + '"}'])))
    assert [part.jobs for part in big] == [1]


@pytest.mark.parametrize("value", [VALUE, None])
def test_staged_and_carried(store: SqlStore, value: ValueChange | None) -> None:
    publication, carried = ready(store, value)
    assert sizes_of(store, "out").total == 0
    assert store.publish_prepared(publication, carried)
    assert_done_once(store)
    assert not store.publish_prepared(publication, carried), "a repeat of the driver's call"
    assert_done_once(store)


def test_a_repeated_stage_adds_nothing(store: SqlStore) -> None:
    parts = prepared(store, 20)
    for _ in range(2):
        store.stage_prepared("write", "a", parts)
    assert store.publish(Publication("write", (("a", 20),)))
    assert sizes_of(store, "out").ready == 20


def test_what_is_missing_is_noticed(store: SqlStore) -> None:
    publication, carried = ready(store)
    with pytest.raises(StagedJobsLost):
        store.publish_prepared(publication._replace(attempts=(("a", 41),)), carried)
    with pytest.raises(StagedJobsLost):
        store.publish_prepared(publication._replace(attempts=(("a", 40), ("b", 1))), carried)
    assert publication.finish is not None
    with pytest.raises(LeasesLost):
        store.publish_prepared(publication._replace(finish=publication.finish._replace(jobs=4)), carried)
    assert_not_done(store)
    assert store.publish_prepared(publication, carried)
    assert_done_once(store)


def test_several_queues_wake_and_count(store: SqlStore) -> None:
    listener = store.listen(["other"])
    listener.wait(0)
    assert store.publish_prepared(Publication("write"), [*prepared(store, 3), *prepared(store, 4, "other")])
    assert listener.wait(60)
    listener.close()
    assert [counts_of(store, queue).pushed for queue in ("out", "other")] == [3, 4]
    assert [settings.name for settings in store.queues()] == ["other", "out"]


def test_claims_take_them_in_order(store: SqlStore) -> None:
    given = columns(20)
    store.publish_prepared(Publication("write"), store.prepare(given))
    claimed = store.claim(Claim("out", 100, "token", "w"))
    assert [row.id for row in claimed.rows] == given.ids.to_pylist()
    assert [row.payload for row in claimed.rows] == given.payloads.to_pylist()


@pytest.mark.parametrize(
    "step",
    ["_values.write", "_finish", "_prepared.publish", "_prepared._form.insert", "_prepared.clear", "_publish_rows"],
)
def test_an_error_at_each_step_changes_nothing(store: SqlStore, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    publication, carried = ready(store)
    with monkeypatch.context() as patched:
        *path, name = f"_parts.staging.{step}".split(".")
        owner = attrgetter(".".join(path))(store)
        done: Callable[..., Any] = getattr(owner, name)
        patched.setattr(owner, name, lambda *given: (done(*given), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            store.publish_prepared(publication, carried)
    assert_not_done(store)
    assert store.publish_prepared(publication, carried)
    assert_done_once(store)


@pytest.mark.parametrize("store", ["pg_store_url"], indirect=True)
@pytest.mark.parametrize(
    "step", ["_values.write", "_finish", "_prepared.publish", "_prepared._form.insert", "_prepared.clear"]
)
def test_a_connection_killed_at_each_step(store: SqlStore, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    publication, carried = ready(store)
    *path, name = f"_parts.staging.{step}".split(".")
    owner = attrgetter(".".join(path))(store)
    done: Callable[..., Any] = getattr(owner, name)
    kills = iter([True])

    def and_killed(run: Runner, *given: Any) -> Any:
        result = done(run, *given)
        if next(kills, False):
            kill_me(store, run)
        return result

    monkeypatch.setattr(owner, name, and_killed)
    assert store.publish_prepared(publication, carried)
    assert next(kills, None) is None
    assert_done_once(store)


@pytest.mark.parametrize("store", ["pg_store_url"], indirect=True)
def test_a_connection_killed_within_the_copy(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    publication, carried = ready(store)
    form = store._parts.staging._prepared._form
    insert, kills = form.insert, iter([True])

    def killed(run: CursorRunner, some: Sequence[Prepared], moment: int) -> None:
        insert(run, Killing([*some, *some[:1]], store, run) if next(kills, False) else some, moment)

    monkeypatch.setattr(form, "insert", killed)
    assert store.publish_prepared(publication, carried)
    assert next(kills, None) is None
    assert_done_once(store)


class Killing(list[Prepared]):
    """Parts, before the last of which the server ends the connection."""

    def __init__(self, parts: Sequence[Prepared], store: SqlStore, run: Runner) -> None:
        super().__init__(parts)
        with closing(run.cursor.connection.cursor()) as other:  # type: ignore[attr-defined]
            self.pid, self.store = other.connection.info.backend_pid, store

    def __iter__(self) -> Iterator[Prepared]:
        *first, last = super().__iter__()
        yield from first
        end_connection(self.store, self.pid)
        yield last


def kill_me(store: SqlStore, run: Runner) -> None:
    """Have the server end the connection that runs this."""
    end_connection(store, run.cursor.connection.info.backend_pid)  # type: ignore[attr-defined]


def end_connection(store: SqlStore, pid: int) -> None:
    with store.database.connection() as other:
        other.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 60000)")


@pytest.mark.parametrize("store", ["pg_store_url"], indirect=True)
def test_an_answer_that_is_lost(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    publication, carried = ready(store)
    attempt = store.database._attempt
    losses = iter([psycopg.OperationalError("lost")])

    def and_lost(work: Any, again: bool, transaction: bool, *rest: Any, **options: Any) -> Any:
        answer = attempt(work, again, transaction, *rest, **options)
        if transaction and (error := next(losses, None)) is not None:
            raise error
        return answer

    store._parts.queues.make({"out"})
    monkeypatch.setattr(store.database, "_attempt", and_lost)
    assert store.publish_prepared(publication, carried), "it is told that it was done by its own first try"
    assert next(losses, None) is None
    assert_done_once(store)
    assert not store.publish_prepared(publication, carried)


@pytest.mark.nightly
def test_a_stage_that_a_crash_of_the_server_emptied(own_postgres_server: PostgresServer) -> None:
    with closing(open_store(own_postgres_server.create_database("crashed"))) as store:
        assert isinstance(store, SqlStore)
        store.setup()
        publication, carried = ready(store)
        own_postgres_server.kill()
        own_postgres_server.start()
        with suppress(StoreUnavailable):
            store.now()
        with pytest.raises(StagedJobsLost):
            store.publish_prepared(publication, carried)
        assert_not_done(store)
        store.stage_prepared("write", "again", prepared(store, 40))
        assert store.publish_prepared(publication._replace(attempts=(("again", 40),)), carried)
        assert_done_once(store)
