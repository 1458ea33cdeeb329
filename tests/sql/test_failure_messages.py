"""What an error tells is the true cause: a lock, missing rights, an old snapshot, and not a store out of reach."""

import sqlite3
from contextlib import closing

import psycopg
import pymysql
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from stanchion import CannotJoin, LeaseLost, Stanchion, StoreUnavailable
from stanchion.stores.mariadb.dialect import MariaDBDialect
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.failure_messages import message_of_failure
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.store import SqlStore
from stanchion.stores.sqlite.store import open_store as open_sqlite
from stanchion_conformance.harness import sizes_of

URL = make_url("sqlite:///jobs.db")


def error(code: int) -> sqlite3.OperationalError:
    found = sqlite3.OperationalError("the driver's words")
    found.sqlite_errorcode = code
    return found


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_READONLY, "refuses this: the driver's words; let this user write to the file"),
        (sqlite3.SQLITE_BUSY, "is busy: the driver's words; another transaction holds a lock"),
        (sqlite3.SQLITE_FULL, "make room on the disk"),
        (sqlite3.SQLITE_NOTADB, "name a file of SQLite"),
        (sqlite3.SQLITE_CANTOPEN, "can't reach the store sqlite:///jobs.db: the driver's words; check that the path"),
    ],
)
def test_sqlite(code: int, words: str) -> None:
    said = message_of_failure(open_sqlite("sqlite:///jobs.db").dialect, URL, error(code))
    assert words in said
    assert ("can't reach" in said) == (code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        *((1142, "refuses this"), (1205, "is busy"), (1213, "is busy"), (2003, "can't reach"), (1045, "can't reach")),
        *((1290, "is read-only: "), (1836, "is read-only: "), (1406, "can't hold a value")),
        *((1969, "or raise the server's time limit"), (1317, "or raise the server's time limit")),
    ],
)
def test_mariadb(number: int, words: str) -> None:
    assert words in message_of_failure(MariaDBDialect(), URL, pymysql.err.OperationalError(number, "words"))


def read_for(app: Stanchion, seconds: float) -> None:
    assert isinstance(app.store, SqlStore)
    app.store.database.read(lambda run: run.rows(text("SELECT count(*) FROM stanchion_jobs")), seconds)


def write_for(app: Stanchion, seconds: float) -> None:
    assert isinstance(app.store, SqlStore)
    app.store.database.write(lambda _run, _again: None, seconds)


def test_a_lock_on_postgresql(pg_app: Stanchion, pg_store_url: str) -> None:
    pg_app.queue("orders").push(1)
    with closing(psycopg.connect(pg_store_url)) as other:
        other.execute("LOCK TABLE stanchion_jobs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable, match="another transaction holds a lock") as raised:
            read_for(pg_app, 0.5)
    assert "can't reach" not in str(raised.value)
    assert pg_app.queue("orders").size().ready == 1


@pytest.mark.slow
def test_a_lock_on_sqlite(tmp_path: object) -> None:
    with closing(Stanchion(f"sqlite:///{tmp_path}/jobs.db")) as app:
        app.queue("orders").push(1)
        with closing(sqlite3.connect(f"{tmp_path}/jobs.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"is busy: .*another transaction holds a lock") as raised:
                write_for(app, 0.2)
    assert "can't reach" not in str(raised.value)


def test_missing_rights_on_postgresql(pg_app: Stanchion, pg_store_url: str) -> None:
    role = pg_store_url.rpartition("/")[2].replace("test_", "bare_")
    with psycopg.connect(pg_store_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        owner.execute(f"GRANT SELECT ON stanchion_meta TO {role}")
    pg_app.queue("orders").push(1)
    try:
        with (
            closing(open_store(pg_store_url.replace("stanchion@", f"{role}@"))) as bare,
            pytest.raises(StoreUnavailable, match="refuses this: permission denied") as raised,
        ):
            sizes_of(bare, "orders")
        assert raised.value.lasting
        assert "can't reach" not in str(raised.value)
    finally:
        with psycopg.connect(pg_store_url, autocommit=True) as owner:
            owner.execute(f"DROP OWNED BY {role}")
            owner.execute(f"DROP ROLE {role}")


def test_an_old_snapshot_on_postgresql(pg_app: Stanchion, pg_store_url: str) -> None:
    queue = pg_app.queue("orders")
    with closing(psycopg.connect(pg_store_url)) as transaction:
        transaction.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        transaction.execute("SELECT 1 FROM stanchion_jobs")
        queue.push(1)
        (job,) = queue.reserve(lease=300)
        with pytest.raises(CannotJoin, match="snapshot from before"):
            job.commit(tx=transaction)
        transaction.rollback()
        job.commit(tx=transaction)
        with pytest.raises(LeaseLost):
            job.commit(tx=transaction)
        transaction.commit()
    assert queue.size().total == 0


def test_an_old_snapshot_on_sqlite(tmp_path: object) -> None:
    with closing(Stanchion(f"sqlite:///{tmp_path}/jobs.db")) as app:
        queue = app.queue("orders")
        queue.push(1)
        with closing(sqlite3.connect(f"{tmp_path}/jobs.db", isolation_level=None)) as transaction:
            transaction.execute("BEGIN")
            transaction.execute("SELECT count(*) FROM stanchion_jobs").fetchall()
            queue.push(2)
            with pytest.raises(CannotJoin, match="old snapshot"):
                queue.push(3, tx=transaction)
            transaction.execute("ROLLBACK")
        assert queue.size().ready == 2


def test_a_lease_that_is_lost_is_told_so(app: Stanchion) -> None:
    queue = app.queue("orders")
    queue.push(1)
    (job,) = queue.reserve(lease=300)
    app.store.clock_offset += 301
    assert len(queue.reserve(lease=300)) == 1
    with app.transaction() as transaction, pytest.raises(LeaseLost):
        job.commit(tx=transaction)


@pytest.mark.usefixtures("short_calls")
def test_a_standby_is_named_as_such(pg_app: Stanchion, pg_store_url: str) -> None:
    """A server that became a standby is read-only; so is a database that is set so."""
    name = make_url(pg_store_url).database
    with psycopg.connect(pg_store_url, autocommit=True) as owner:
        owner.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    queue = pg_app.queue("orders")
    with pytest.raises(StoreUnavailable, match=r"is read-only: cannot execute INSERT .*failover") as raised:
        queue.push(1)
    assert "can't reach" not in str(raised.value)
    assert not raised.value.lasting
    assert queue.size().total == 0
    with psycopg.connect(pg_store_url) as owner:
        owner.execute("SET TRANSACTION READ WRITE")
        owner.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
    queue.push(1)
    assert queue.size().total == 1


@pytest.mark.parametrize("ours", [True, False])
def test_psycopg_logs_no_failure_that_is_raised(
    pg_app: Stanchion, pg_store_url: str, caplog: pytest.LogCaptureFixture, ours: bool
) -> None:
    end = "SELECT pg_terminate_backend(pg_backend_pid())"
    assert isinstance(pg_app.store, SqlStore)
    if ours:
        ended: list[bool] = []

        def work(run: Runner, again: bool) -> None:
            ended.append(again)
            run.rows(text("SELECT 1" if again else end))

        pg_app.store.database.write(work, together=True)
        assert ended == [False, True]
    else:
        with (
            pytest.raises(psycopg.OperationalError),
            psycopg.connect(pg_store_url, autocommit=True) as caller,
            caller.pipeline(),
        ):
            caller.execute(end).fetchall()
    assert ("psycopg" in {record.name for record in caplog.records}) == (not ours)
