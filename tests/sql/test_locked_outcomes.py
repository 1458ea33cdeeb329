"""Locks of other transactions: they hold up no outcome that they don't concern, and make no finished job run again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.engine import Connection
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until, working

from stanchion import JobState, Snooze, Stanchion

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("short_calls")]

DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_outcomes_of_other_jobs_are_stored_meanwhile(
    app: Stanchion, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stanchion.worker.finisher.LOAD_GROUP_MIN", 0)  # outcomes are stored together
    began, go_on = threading.Barrier(6), threading.Event()

    @app.task
    def task(n: int) -> int:
        began.wait(60)
        go_on.wait(60)
        return n

    @app.task
    def later(n: int) -> int:
        return n

    with working(app, threads=8), connected(url) as connection:
        handles = task.enqueue_many([(n,) for n in range(5)])
        began.wait(60)
        connection.execute(text("SELECT id FROM stanchion_jobs WHERE id = :id FOR UPDATE"), {"id": handles[2].id})
        go_on.set()
        assert [handle.result(timeout=60) for handle in (*handles[:2], *handles[3:])] == [0, 1, 3, 4]
        assert later.enqueue(5).result(timeout=60) == 5
        until(lambda: "outcomes wait for the store" in caplog.text)
        assert handles[2].state is JobState.RUNNING
        connection.rollback()
        assert handles[2].result(timeout=60) == 2
        assert handles[2].job().attempts == 1


@pytest.mark.nightly_except("postgresql")
@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_manager_stores_outcomes_of_other_receivers_meanwhile(app: Stanchion, url: str) -> None:
    with (
        ManagerThread(app.store) as manager,
        closing(Stanchion(manager.url)) as one,
        closing(Stanchion(manager.url)) as other,
    ):
        began, go_on = threading.Event(), threading.Event()

        @one.task(name="locked")
        def locked(waits: bool) -> int:
            if waits:
                began.set()
                go_on.wait(60)
            return 1

        @other.task(name="free", queue="others")
        def free(n: int) -> int:
            return n

        settles, counts = manager.manager.engine._settles, manager.manager.engine._counts
        with working(one), working(other), connected(url) as connection:
            until(lambda: locked.enqueue(False).result(timeout=60) and counts.sent["default"], 60)  # by a stream
            until(lambda: free.enqueue(0).result(timeout=60) == 0 and counts.sent["others"], 60)
            handle = locked.enqueue(True)
            assert began.wait(60)
            connection.execute(text("SELECT id FROM stanchion_jobs WHERE id = :id FOR UPDATE"), {"id": handle.id})
            go_on.set()
            until(lambda: len(settles._late) == 1)
            confirmed = counts.acknowledged["others"]
            for n in range(20):
                assert free.enqueue(n).result(timeout=60) == n
            until(lambda: counts.acknowledged["others"] == confirmed + 20)
            assert (len(settles), handle.state) == (1, JobState.RUNNING), "only the locked job's waits"
            connection.rollback()
            assert handle.result(timeout=60) == 1
            until(lambda: len(settles) == 0)
        assert (handle.job().attempts, handle.job().errors) == (1, [])


@pytest.mark.nightly_except("postgresql")
@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_finished_job_waits_for_a_lock_on_history_as_long_as_it_takes(
    app: Stanchion, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @app.task(max_attempts=1)
    def task(n: int) -> int:
        ran.append(n)
        if n == 1:
            raise Snooze(0.1 if ran.count(1) < 4 else 3600)
        return n

    with connected(url) as connection:
        if connection.dialect.name == "postgresql":  # as CREATE INDEX does
            connection.execute(text("LOCK TABLE stanchion_history IN SHARE MODE"))
        else:
            connection.execute(text("LOCK TABLES stanchion_history READ"))
        with working(app):
            done, snoozed = task.enqueue_many([(0,), (1,)])
            until(lambda: ran.count(1) == 4 and snoozed.state is JobState.SCHEDULED)
            until(lambda: caplog.text.count("outcomes wait for the store") > 4)
            assert done.state is JobState.RUNNING
            if connection.dialect.name != "postgresql":
                connection.execute(text("UNLOCK TABLES"))
            connection.rollback()
            assert done.result(timeout=60) == 0
    assert (done.job().attempts, done.job().errors, ran.count(0)) == (1, [], 1)


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Lend a connection of another program, in a transaction."""
    address = make_url(url)
    engine = create_engine(address.set(drivername=DRIVERS[address.drivername]))
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
