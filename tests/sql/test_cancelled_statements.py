"""A statement that is cancelled, by a time-out or an operator, is repeated: the job is not at fault."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any

import psycopg
import pymysql
import pytest
from sqlalchemy.engine import make_url
from tests.crash.scene import until
from tests.servers.mariadb import MariaDBServer
from tests.sql.mariadb.sessions import connect

from stanchion import JobHandle, JobState, Stanchion, StoreUnavailable, Worker
from stanchion.stores.postgres.dialect import PostgresDialect
from stanchion.stores.records import calls
from stanchion.stores.sql.engine.dialect import Fault

BUSY = ("25P04", "40001", "40P01", "55006", "55P03", "57014", "26000", "42P05")
LOST = ("08006", "08P01", "25006", "25P03", "53300", "53100", "55000", "57P01", "57P03", "58000", "58030", "XX000")
HOPELESS = ("28000", "28P01", "3D000", "42501")
DATA = ("22001", "22021", "22P05", "54000", "22003")
OTHER = ("23505", "42P01", "42601", "P0001")
KINDS = {Fault.BUSY: BUSY, Fault.LOST: LOST + HOPELESS, Fault.DATA: DATA, Fault.OTHER: OTHER}


def error(code: str) -> psycopg.Error:
    """Return the error of a server, in words that say nothing."""
    found = psycopg.errors.lookup(code)("does not exist: authentication failed")
    found.sqlstate = code
    return found


@pytest.mark.parametrize(("fault", "code"), [(fault, code) for fault, codes in KINDS.items() for code in codes])
def test_postgresql_by_its_codes(fault: Fault, code: str) -> None:
    dialect = PostgresDialect(make_url("postgresql://host/database"))
    assert dialect.fault(error(code)) is fault
    assert dialect.worth_retrying(error(code)) == (code not in HOPELESS)


def test_postgresqls_driver_without_a_code() -> None:
    dialect = PostgresDialect(make_url("postgresql://host/database"))
    assert dialect.fault(psycopg.OperationalError("the connection is lost")) is Fault.LOST
    assert dialect.fault(psycopg.DataError("text can't contain NUL")) is Fault.DATA
    assert dialect.fault(psycopg.ProgrammingError("a wrong statement")) is Fault.OTHER
    assert dialect.worth_retrying(psycopg.OperationalError("it does not exist: authentication failed"))


def cancel_on_postgresql(url: str) -> int:
    """Cancel all statements that wait for a lock; return their number."""
    with psycopg.connect(url, autocommit=True, options="-c statement_timeout=0") as operator:
        found = operator.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return len(found.fetchall())


@contextmanager
def locked_on_postgresql(url: str) -> Iterator[Callable[[], int]]:
    """Hold the lock that CREATE INDEX takes on history."""
    with psycopg.connect(url) as operator:
        operator.execute("LOCK TABLE stanchion_history IN SHARE MODE")
        yield lambda: cancel_on_postgresql(url)


@contextmanager
def locked_on_mariadb(url: str, server: MariaDBServer) -> Iterator[Callable[[], int]]:
    with closing(connect(url)) as holder, closing(server.connect_as_root()) as operator:
        run(holder, "LOCK TABLES stanchion_history READ")

        def cancel() -> int:
            waiting = run(
                operator,
                "SELECT id FROM information_schema.processlist "
                f"WHERE db = '{make_url(url).database}' AND state LIKE 'Waiting for%lock%'",
            )
            for (number,) in waiting:
                run(operator, f"KILL QUERY {number}")
            return len(waiting)

        yield cancel


def run(connection: pymysql.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture(params=["postgresql", "mariadb"])
def locked(request: pytest.FixtureRequest) -> tuple[str, AbstractContextManager[Callable[[], int]]]:
    """A store, and the lock on its history."""
    if request.param == "postgresql":
        url = request.getfixturevalue("pg_store_url")
        return url, locked_on_postgresql(url)
    url = request.getfixturevalue("mariadb_url")
    with closing(Stanchion(url)) as app:
        app.setup()
    return url, locked_on_mariadb(url, request.getfixturevalue("mariadb_server"))


@contextmanager
def finishing(url: str) -> Iterator[tuple[JobHandle, list[int]]]:
    """A job that a worker finishes, and the attempts at it; at the end it must be done, once."""
    ran: list[int] = []
    with closing(Stanchion(url)) as app:

        @app.task(name="work")
        def work() -> str:
            ran.append(1)
            return "done"

        handle = work.enqueue()
        worker = Worker(app, threads=1)
        worker.start()
        try:
            yield handle, ran
            assert handle.result(timeout=60) == "done"
        finally:
            worker.stop()
        job = handle.job()
        assert (job.state, job.attempts, job.failures, job.errors) == (JobState.DONE, 1, 0, [])
        assert ran == [1]


def test_a_commit_that_is_cancelled_again_and_again(
    locked: tuple[str, AbstractContextManager[Callable[[], int]]],
) -> None:
    url, lock = locked
    cancelled = 0
    with ExitStack() as held:
        cancel = held.enter_context(lock)

        def often() -> bool:
            nonlocal cancelled
            cancelled += cancel()
            return cancelled >= 5

        with finishing(url):
            until(often, 60, "five cancelled commits")
            held.close()


def test_a_lock_that_outlasts_many_calls(
    locked: tuple[str, AbstractContextManager[Callable[[], int]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody but history is locked: the store takes failures, and still none is made of the outcome."""
    url, lock = locked
    with ExitStack() as held:
        held.enter_context(lock)
        with finishing(url) as (handle, _ran):
            monkeypatch.setattr(calls, "CALL_SECONDS", 0.5)
            until(lambda: caplog.text.count("outcomes wait for the store") >= 6, 120, "six calls in vain")
            monkeypatch.undo()
            assert handle.state is JobState.RUNNING
            held.close()


CALLS: dict[str, Callable[[Any, Any, str], Any]] = {
    "push": lambda queue, _held, _dead: queue.push(2),
    "push with a key": lambda queue, _held, _dead: queue.push(2, key="k"),
    "cancel": lambda queue, held, _dead: queue.cancel(held.id),
    "size": lambda queue, _held, _dead: queue.size(),
    "find": lambda queue, _held, _dead: queue.find(),
    "retry": lambda queue, _held, dead: queue.retry(dead),
    "reserve": lambda queue, _held, _dead: queue.reserve(1, wait=0.5),
    "commit": lambda _queue, held, _dead: held.commit(),
    "get": lambda queue, held, _dead: queue.get(held.id),
}


@pytest.fixture
def called(pg_store_url: str, call: str) -> Iterator[tuple[Callable[[], Any], psycopg.Connection[Any]]]:
    """A call, and the transaction that locks what it needs; statements that wait for long are cancelled."""
    with closing(Stanchion(pg_store_url)) as app:
        queue = app.queue("orders")
        queue.push(1)
        (dead,) = queue.reserve()
        dead.bury("it is")
        queue.push(1)
        (held,) = queue.reserve(lease=300)
    with psycopg.connect(pg_store_url, autocommit=True) as owner:
        owner.execute(f"ALTER DATABASE {make_url(pg_store_url).database} SET statement_timeout = '100ms'")
    with closing(Stanchion(pg_store_url)) as app, psycopg.connect(pg_store_url) as other:
        queue, held = app.queue("orders"), app.reservation(held.id, held.token)
        queue.size()
        other.execute("SET LOCAL statement_timeout = 0")
        other.execute("LOCK TABLE stanchion_jobs, stanchion_history IN ACCESS EXCLUSIVE MODE")
        yield lambda: CALLS[call](queue, held, dead.id), other


@pytest.mark.parametrize("call", CALLS)
def test_each_call_is_repeated(called: tuple[Callable[[], Any], psycopg.Connection[Any]], pg_store_url: str) -> None:
    call, other = called
    before = rolled_back(pg_store_url)
    ended, failed = threading.Event(), list[BaseException]()

    def target() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)
        ended.set()

    thread = threading.Thread(target=target)
    thread.start()
    until(lambda: ended.is_set() or rolled_back(pg_store_url) >= before + 3, 60, "three cancelled statements")
    assert not ended.is_set(), failed
    other.rollback()
    thread.join(60)
    assert ended.is_set()
    assert not failed


@pytest.mark.usefixtures("short_calls")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_never_gets_through(called: tuple[Callable[[], Any], psycopg.Connection[Any]]) -> None:
    with pytest.raises(StoreUnavailable, match="another transaction holds a lock") as caught:
        called[0]()
    assert not caught.value.lasting


def rolled_back(url: str) -> int:
    """Return the number of transactions that were rolled back in this database."""
    with psycopg.connect(url, autocommit=True, options="-c statement_timeout=0") as operator:
        operator.execute("SELECT pg_stat_clear_snapshot()")
        found = operator.execute(
            "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    return int(found[0]) if found else 0
