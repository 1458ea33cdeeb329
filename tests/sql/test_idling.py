"""Transactions whose client vanishes without a word."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import psycopg
import pytest
from sqlalchemy import text
from tests.worker.conftest import until

from stanchion import Stanchion
from stanchion.stores.mariadb import dialect as mariadb
from stanchion.stores.postgres import dialect as postgres
from stanchion.stores.postgres.connections import sessions
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.store import SqlStore

NAP = 2.5
LOCKED = text("SELECT id FROM stanchion_jobs WHERE id = :job FOR UPDATE")
IF_FREE = text("SELECT id FROM stanchion_jobs WHERE id = :job FOR UPDATE SKIP LOCKED")


@pytest.fixture(params=["pg_url", "mariadb_url"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database where transactions of ours may be idle for a second."""
    for module in (postgres, sessions, mariadb):
        monkeypatch.setattr(module, "IDLE_SECONDS", 1)
    return str(request.getfixturevalue(request.param))


def opened(url: str) -> Iterator[SqlStore]:
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        store.setup()
        yield store


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    yield from opened(url)


@pytest.fixture
def other(url: str) -> Iterator[SqlStore]:
    """A second client of the same database."""
    yield from opened(url)


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


def test_a_client_that_stands_still_amid_a_pipeline_loses_its_locks(store: SqlStore, other: SqlStore) -> None:
    job = Stanchion(store=store).queue("q").push(1)
    repeats = []

    def free() -> bool:
        other.maintain()
        return bool(other.database.write(lambda run, _again: run.rows(IF_FREE, {"job": job.id})))

    def work(run: Runner, again: bool) -> None:
        repeats.append(again)
        assert run.rows(LOCKED, {"job": job.id})
        if not again:
            assert not other.database.write(lambda run, _again: run.rows(IF_FREE, {"job": job.id}))
            until(free)
        run.rows(LOCKED, {"job": job.id})

    store.database.write(work, together=True)
    assert repeats == [False, True]


def test_maintenance_ends_no_session_that_is_not_ours_or_copies(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 0)
    with closing(open_store(pg_url)) as store, ExitStack() as sessions:
        store.setup()
        standing, copying, strange = (
            sessions.enter_context(psycopg.connect(pg_url, application_name=name))
            for name in ("stanchion", "stanchion", "reports")
        )
        for session in (standing, strange):
            sessions.enter_context(suppress(psycopg.OperationalError))
            sessions.enter_context(session.pipeline())
            session.execute("SELECT 1").fetchone()
        sessions.enter_context(suppress(psycopg.OperationalError))
        rows = sessions.enter_context(copying.cursor().copy("COPY stanchion_meta FROM STDIN"))
        rows.write("")
        until(lambda: waiting_for_clients(pg_url) == 3)
        store.maintain()
        until(lambda: waiting_for_clients(pg_url) == 2)
        with pytest.raises(psycopg.OperationalError):
            standing.execute("SELECT 1").fetchone()
        assert strange.execute("SELECT 2").fetchone() == (2,)


def waiting_for_clients(url: str) -> int:
    """Return how many sessions are amid a pipeline or a COPY, and wait for their clients."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
            " AND wait_event = 'ClientRead'"
        ).fetchone()
    return 0 if found is None else int(found[0])


def test_a_caller_takes_its_time(store: SqlStore) -> None:
    app = Stanchion(store=store)
    with app.transaction() as tx:
        app.queue("q").push(1, tx=tx)
        time.sleep(NAP)
        app.queue("q").push(2, tx=tx)
    assert app.queue("q").size().ready == 2
