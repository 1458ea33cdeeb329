"""What is particular about MariaDB: names, clocks, other people's sessions, locks, and a server that goes away."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from multiprocessing import get_context
from random import Random
from typing import Any

import pymysql
import pytest
from pymysql.cursors import DictCursor
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session
from tests.crash.scene import until
from tests.servers.mariadb import MariaDBServer

from stanchion import Push, Stanchion
from stanchion.core.backoff import patiently
from stanchion.core.ids import new_id, new_ids
from stanchion.errors import CannotJoin, InvalidInput, SchemaMismatch, StoreUnavailable
from stanchion.stores.mariadb.cursors import StrictCursor
from stanchion.stores.mariadb.dialect import MariaDBDialect, refuse_old
from stanchion.stores.mariadb.statements import CLOCK
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.dialect import Fault
from stanchion_conformance.harness import counts_of, sizes_of


@pytest.fixture
def store(mariadb_url: str) -> Iterator[Store]:
    with closing(open_store(mariadb_url)) as store:
        store.setup()
        yield store


@pytest.fixture
def app(store: Store) -> Stanchion:
    return Stanchion(store=store)


def connect(url: str, **options: Any) -> pymysql.Connection[Any]:
    """Open a connection as a caller would."""
    parts = make_url(url)
    return pymysql.connect(
        host=parts.host,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        database=parts.database,
        **options,
    )


# -- the address


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"])
def test_its_schemes(store: Store, mariadb_url: str, scheme: str) -> None:
    with closing(open_store(mariadb_url.replace("mysql", scheme, 1))) as same:
        same.check()
        assert abs(same.now() - store.now()) < SECOND


@pytest.mark.usefixtures("store")
def test_its_unix_socket(mariadb_server: MariaDBServer, mariadb_url: str) -> None:
    database = make_url(mariadb_url).database
    user = f"{mariadb_server.user}:{mariadb_server.password}"
    with closing(open_store(f"mysql://{user}@localhost/{database}?unix_socket={mariadb_server.socket}")) as same:
        same.check()


def test_another_driver_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"use mysql://\.\.\., not mysql\+mysqldb"):
        open_store("mysql+mysqldb://u:p@h/db")


def test_the_database_must_be_named() -> None:
    with pytest.raises(InvalidInput, match="names no database; write mariadb://user:password@host:port/database"):
        open_store("mariadb://u:p@h")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": "wrong"}, "Access denied"),
        ({"username": "nobody"}, "Access denied"),
        ({"database": "missing"}, "denied"),
        ({"host": "no.such.host.invalid"}, "Can't connect"),
    ],
)
def test_what_is_wrong_for_good_is_told_at_once(mariadb_url: str, change: dict[str, str], reason: str) -> None:
    url = make_url(mariadb_url).set(**change)  # type: ignore[arg-type]
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=reason) as told:
        open_store(url.render_as_string(hide_password=False)).now()
    assert time.monotonic() - started < 8
    assert "secret" not in str(told.value)
    assert "wrong" not in str(told.value)


@pytest.mark.parametrize("version", ["5.7.44-log", "8.0.16", "5.5.5-10.5.29-MariaDB-1:10.5.29+maria~ubu2004"])
def test_an_old_server_is_refused(version: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"too old; use (MariaDB 10\.6|MySQL 8\.0\.17) or later"):
        refuse_old(version)


@pytest.mark.parametrize("version", ["8.0.17", "8.4.3-0ubuntu1", "9.1.0", "5.5.5-10.6.0-MariaDB", "11.8.2-MariaDB-log"])
def test_a_newer_one_is_not(version: str) -> None:
    refuse_old(version)


# -- the schema


def test_setup_at_the_same_time(mariadb_url: str) -> None:
    stores = [open_store(mariadb_url) for _ in range(6)]
    at_once([store.setup for store in stores])
    for store in stores:
        store.check()
        store.close()
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT version FROM stanchion_meta")
        assert len(cursor.fetchall()) == 1
        cursor.execute("SELECT IS_FREE_LOCK(CONCAT('stanchion ', MD5(DATABASE())))")
        assert cursor.fetchone() == (1,)


def test_a_setup_that_died_is_repeated(store: Store, mariadb_url: str) -> None:
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        indexes = "SELECT table_name, index_name FROM information_schema.statistics WHERE table_schema = DATABASE()"
        cursor.execute(indexes)
        complete = set(cursor.fetchall())
        cursor.execute("DROP TABLE stanchion_workers, stanchion_counts")
        cursor.execute("DROP INDEX stanchion_jobs_line ON stanchion_jobs")
        cursor.execute("DELETE FROM stanchion_meta")
        connection.commit()
        with pytest.raises(SchemaMismatch, match="stanchion setup"):
            store.check()
        store.setup()
        store.check()
        cursor.execute(indexes)
        assert set(cursor.fetchall()) == complete


def test_the_script_makes_the_same_schema(mariadb_url: str) -> None:
    with closing(open_store(mariadb_url)) as store:
        steps = store.setup(dry_run=True)
        with connect(mariadb_url, autocommit=True) as connection, connection.cursor() as cursor:
            for step in steps:
                cursor.execute(step)
        store.check()
        assert Stanchion(store=store).queue("orders").push(1).id
        with connect(mariadb_url) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT collation_name FROM information_schema.columns "
                "WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
            )
            assert cursor.fetchall() == (("utf8mb4_nopad_bin",),)


def test_the_rights_that_it_needs(mariadb_server: MariaDBServer, mariadb_url: str) -> None:
    database = make_url(mariadb_url).database
    mariadb_server.execute(
        "CREATE OR REPLACE USER 'maker'@'%' IDENTIFIED BY 'm'",
        "CREATE OR REPLACE USER 'user'@'%' IDENTIFIED BY 'u'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, INDEX ON `{database}`.* TO 'maker'@'%'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{database}`.* TO 'user'@'%'",
    )
    address = f"@127.0.0.1:{mariadb_server.port}/{database}"
    with (
        closing(open_store(f"mysql://maker:m{address}")) as maker,
        closing(open_store(f"mysql://user:u{address}")) as user,
    ):
        with pytest.raises(StoreUnavailable, match=r"refuses this: .*CREATE command denied"):
            user.setup()
        maker.setup()
        queue = Stanchion(store=user).queue("orders", history_ttl=60)
        queue.push_many([Push(n, key=str(n)) for n in range(3)])
        first, second, third = queue.reserve(3)
        first.commit()
        second.rollback()
        third.bury("why")
        assert queue.retry(third.id).id == third.id
        queue.purge_history()
        user.recover()
        user.maintain()
        queue.delete()


# -- text


@pytest.mark.parametrize("other", ["Ab", "ab ", " ab", "áb"])
def test_names_differ_if_a_byte_does(app: Stanchion, other: str) -> None:
    queue = app.queue("ab")
    first = queue.push(1, key="ab")
    second = queue.push(2, key=other)
    assert not second.duplicate
    assert queue.push(3, key="ab").id == first.id
    assert queue.push(3, key=other).id == second.id
    app.queue(other).push("elsewhere")
    assert queue.size().total == 2
    assert [job.payload for job in app.queue(other).reserve(5)] == ["elsewhere"]


def test_long_texts(store: Store) -> None:
    long = '"' + "ü🚧\\\\'" * 200_000 + '"'
    jobs = [NewJob(one, "orders", long) for one in new_ids(3)]
    store.push(jobs)
    rows = store.claim(Claim("orders", 3, "t")).rows
    assert [row.payload for row in rows] == [long] * 3
    store.settle([Commit(rows[0].id, "t", result=long), Commit(rows[1].id, "t", payload=long), Commit(rows[2].id, "t")])
    found = store.fetch([row.id for row in rows])
    assert [found[row.id].result for row in rows] == [long, None, None]
    assert [found[row.id].payload for row in rows] == [long] * 3


def test_a_value_that_was_cut_is_refused(store: Store, mariadb_url: str) -> None:
    too_long = NewJob(new_id(), "orders", "1", tenant="t" * 201)
    with pytest.raises(pymysql.DataError, match="tenant"):
        store.push([too_long])
    with connect(mariadb_url, sql_mode="") as lenient:
        with pytest.raises(pymysql.DataError, match="tenant"):
            store.push([too_long], tx=lenient)
        lenient.rollback()
    assert sizes_of(store, "orders").total == 0


# -- time


@pytest.fixture(scope="session")
def paris(mariadb_server: MariaDBServer) -> str:
    """A time zone that the server knows, with summer time."""
    made = subprocess.run(
        ["mariadb-tzinfo-to-sql", "--skip-write-binlog", "/usr/share/zoneinfo/Europe/Paris", "Europe/Paris"],
        capture_output=True,
        text=True,
        check=True,
    )
    with mariadb_server.connect_as_root() as connection, connection.cursor() as cursor:
        cursor.execute("USE mysql")
        for statement in made.stdout.split(";\n"):
            if statement.strip().upper().startswith(("INSERT", "SET @")):
                cursor.execute(statement)
    return "Europe/Paris"


@pytest.mark.parametrize("zone", ["SYSTEM", "-11:00", "+13:00", "paris"])
def test_the_clock_knows_no_zones_and_no_summer_time(
    mariadb_url: str, zone: str, request: pytest.FixtureRequest
) -> None:
    name = request.getfixturevalue("paris") if zone == "paris" else zone
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = %s", [name])
        # In Paris clocks go back at 1792893600: the hour from there on has the same names as the one before.
        for second in (1_774_745_999, 1_774_746_000, 1_792_889_999, 1_792_890_000, 1_792_893_599, 1_792_893_600):
            cursor.execute("SET timestamp = %s", [second + 0.25])
            cursor.execute(f"SELECT {CLOCK}")
            assert cursor.fetchone() == (second * SECOND + 250_000,)


def test_a_session_in_another_zone_pushes_what_is_due_now(store: Store, app: Stanchion, mariadb_url: str) -> None:
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+13:00'")
        app.queue("orders").push(1, tx=connection)
        app.queue("orders").push(2, delay=60, tx=connection)
        connection.commit()

    def popped() -> Any:
        job = app.queue("orders").pop()
        return job and job.payload

    assert [popped(), popped()] == [1, None]
    store.clock_offset += 61
    assert [popped(), popped()] == [2, None]


# -- the caller's transaction


def test_an_old_snapshot_hides_nothing_that_matters(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    queue.push("make the queue", key="other")
    queue.pop()
    app.queue("zoo").push("after the jobs of orders, in the index of keys")
    with connect(mariadb_url) as connection, connection.cursor() as cursor:  # REPEATABLE READ, as by default
        cursor.execute("SELECT COUNT(*) FROM stanchion_jobs")
        assert cursor.fetchone() == (1,)
        first = queue.push(1, key="k")
        again = queue.push(2, key="k", tx=connection)
        assert (again.id, again.duplicate) == (first.id, True)
        renewed = queue.push(3, key="k", on_duplicate="replace", priority=7, tx=connection)
        assert renewed.id == first.id
        late = NewJob(new_id(), "orders", "5")
        app.store.push([late])
        assert [pushed.id for pushed in app.store.push([late], tx=connection)] == [late.id]
        connection.commit()
    (job,) = queue.reserve(1)
    assert (job.payload, job.priority) == (3, 7)
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM stanchion_jobs")
        (newer,) = queue.reserve(1)
        newer.commit("done", tx=connection)
        job.move("next", tx=connection)
        connection.commit()
    assert queue.size().total == 0
    assert app.queue("next").size().ready == 1


@pytest.mark.parametrize(
    "options", [{}, {"client_flag": 2}, {"cursorclass": DictCursor}], ids=["plain", "found rows", "dicts"]
)
def test_any_connection_of_the_driver_joins(app: Stanchion, mariadb_url: str, options: dict[str, Any]) -> None:
    queue = app.queue("orders")
    holder = queue.push(0, key="a")
    with connect(mariadb_url, **options) as connection:
        pushed = queue.push_many(
            [Push(n, key=key) for n, key in enumerate("abcb")] + [Push(9), Push(10)], tx=connection
        )
        assert [job.duplicate for job in pushed] == [True, False, False, True, False, False]
        assert pushed[0].id == holder.id
        connection.commit()
    assert queue.size().total == 5
    assert queue.counts().pushed == 5


def test_a_connection_that_commits_by_itself_is_refused(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    with connect(mariadb_url, autocommit=True) as connection:
        with pytest.raises(CannotJoin, match=r"call its begin\(\) first"):
            queue.push(1, tx=connection)
        connection.begin()
        queue.push(2, tx=connection)
        connection.rollback()
        connection.begin()
        queue.push(3, tx=connection)
        connection.commit()
    assert [job.payload for job in queue.reserve(5)] == [3]


def test_a_closed_connection_is_refused(app: Stanchion, mariadb_url: str) -> None:
    connection = connect(mariadb_url)
    connection.close()
    with pytest.raises(CannotJoin, match="an open pymysql connection"):
        app.queue("orders").push(1, tx=connection)


def test_the_other_dialect_joins_through_sqlalchemy(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    engine = create_engine(make_url(mariadb_url).set(drivername="mariadb+pymysql"))
    with Session(engine) as session:
        queue.push("lost", tx=session)
        session.rollback()
        queue.push_many([Push(n, key=str(n % 3)) for n in range(6)], tx=session)
        session.commit()
    assert queue.counts().pushed == 3
    jobs = queue.reserve(3)
    assert [job.payload for job in jobs] == [0, 1, 2]
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        jobs[0].commit({"a": "ü🚧"}, tx=session)
        jobs[1].commit(tx=session)
        jobs[2].move("next", tx=session)
        session.commit()
    engine.dispose()
    assert [job.result for job in queue.history()] == [None, {"a": "ü🚧"}]
    assert app.queue("next").size().ready == 1


def test_a_raw_connection_of_another_driver_is_refused(app: Stanchion) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as raw,
        pytest.raises(CannotJoin, match="a SQLAlchemy Session or Connection, or an open pymysql"),
    ):
        app.queue("orders").push(1, tx=raw)


# -- locks


def at_once(targets: list[Callable[[], Any]]) -> None:
    errors: list[BaseException] = []

    def guarded(target: Callable[[], Any]) -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def churn(url: str, seed: int, seconds: float) -> int:
    """Push with keys that others use, claim, end and free jobs, all mixed; return the number of commits."""
    dice, done, end = Random(seed), 0, time.monotonic() + seconds
    with closing(open_store(url)) as store:
        while time.monotonic() < end:
            keys = dice.sample(range(12), 4)
            modes = dice.choices(["return", "replace"], k=4)
            store.push(
                [
                    NewJob(one, "orders", "1", key=str(key), on_duplicate=mode)
                    for one, key, mode in zip(new_ids(4), keys, modes, strict=True)
                ]
                + [NewJob(one, "orders", "1", priority=dice.randint(0, 2)) for one in new_ids(4)]
            )
            rows = store.claim(Claim("orders", dice.randint(1, 12), new_id(), lease=dice.choice([0.001, 30.0]))).rows
            dice.shuffle(rows)
            outcomes = [
                Commit(row.id, row.token or "") if dice.random() < 0.7 else Rollback(row.id, row.token or "", 0.0)
                for row in rows
            ]
            done += [str(state) for state in store.settle(outcomes)].count("done")
            store.recover()
    return done


def test_everybody_at_once_in_threads(store: Store, mariadb_url: str) -> None:
    done: list[int] = []
    at_once([lambda seed=seed: done.append(churn(mariadb_url, seed, 3)) for seed in range(6)])  # type: ignore[misc]
    check_counts(store, sum(done))


def test_everybody_at_once_in_processes(store: Store, mariadb_url: str) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as processes:
        done = list(processes.map(churn, [mariadb_url] * 4, range(4), [3.0] * 4))
    check_counts(store, sum(done))


def check_counts(store: Store, done: int) -> None:
    """What came in is done, or still there; what is there can be had."""
    assert done
    store.clock_offset += 60
    store.recover()
    counts, sizes = counts_of(store, "orders"), sizes_of(store, "orders")
    assert counts.committed == done
    assert counts.pushed == counts.committed + counts.buried + sizes.total
    store.clock_offset += (
        100_000  # some have lost leases, and wait by their retry policy; each of these is handed out alone
    )
    claims = iter(lambda: len(store.claim(Claim("orders", 10_000, new_id(), lease=1e6)).rows), 0)
    assert sum(claims) == sizes.total


def test_a_deadlock_is_tried_again(store: Store, app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    queue.push_many([Push(n, key=str(n)) for n in range(2)])
    first, second = queue.reserve(2)
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM stanchion_jobs WHERE id = %s FOR UPDATE", [max(first.id, second.id)])
        ended: list[Any] = []
        thread = threading.Thread(
            target=lambda: ended.append(store.settle([Commit(first.id, first.token), Commit(second.id, second.token)]))
        )
        thread.start()
        time.sleep(0.5)  # it holds the lower id and waits for the higher
        with pytest.raises(pymysql.OperationalError) as dead:  # noqa: PT012
            cursor.execute("UPDATE stanchion_tallies SET n = n")  # the heavier transaction survives
            cursor.execute("SELECT 1 FROM stanchion_jobs WHERE id = %s FOR UPDATE", [min(first.id, second.id)])
            raise pymysql.OperationalError(1213, "the store was the victim, and tries again")
        assert dead.value.args[0] == 1213
        connection.rollback()
        thread.join(10)
    assert ended == [["done", "done"]]


def test_a_row_that_stays_locked_ends_in_an_error(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    queue.push(1)
    (job,) = queue.reserve(lease=300)
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM stanchion_jobs WHERE id = %s FOR UPDATE", [job.id])
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="holds a lock"):
            job.commit()
        assert time.monotonic() - started < 40  # the server by itself would wait for 50
    job.commit()
    assert queue.size().total == 0


def test_taking_reads_no_more_than_it_takes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = new_ids(3000)
    store.push([NewJob(one, "orders", "1") for one in ids])
    read: list[int] = []
    execute = StrictCursor.execute

    def counted(self: StrictCursor, query: Any, args: Any = None) -> int:
        before = rows_read(self.connection)
        changed = execute(self, query, args)
        read.append(rows_read(self.connection) - before)
        return changed

    monkeypatch.setattr(StrictCursor, "execute", counted)
    assert store.take(ids[:50]) == ids[:50]
    assert 50 < sum(read) < 1000


def rows_read(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(count) for _, count in cursor.fetchall())


# -- a server that goes away


@pytest.mark.parametrize("number", [1205, 1213])
def test_busy(number: int) -> None:
    assert MariaDBDialect().fault(pymysql.OperationalError(number, "")) is Fault.BUSY


@pytest.mark.parametrize("number", [0, 1040, 1053, 1317, 1927, 2003, 2006, 2013, 2014, 2055, 3024])
def test_lost_for_now(number: int) -> None:
    error = pymysql.OperationalError(number, "")
    assert MariaDBDialect().fault(error) is Fault.LOST
    assert MariaDBDialect().worth_retrying(error)


@pytest.mark.parametrize("number", [1044, 1045, 1049])
def test_lost_for_good(number: int) -> None:
    error = pymysql.OperationalError(number, "")
    assert MariaDBDialect().fault(error) is Fault.LOST
    assert not MariaDBDialect().worth_retrying(error)


@pytest.mark.parametrize("error", [pymysql.IntegrityError(1062, ""), pymysql.ProgrammingError(1146, ""), ValueError()])
def test_other_faults(error: Exception) -> None:
    assert MariaDBDialect().fault(error) is Fault.OTHER


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
                pushed = patiently(lambda _repeat, jobs=jobs: store.push(jobs), time.monotonic() + 60)  # type: ignore[misc]
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
def test_a_silent_server_is_not_waited_for_forever(own_mariadb_server: MariaDBServer) -> None:
    with closing(open_store(own_mariadb_server.create_database("jobs"))) as store:
        store.setup()
        store.now()
        with own_mariadb_server.silent():
            started = time.monotonic()
            with pytest.raises(StoreUnavailable):
                store.push([NewJob(new_id(), "orders", "1")])
            assert time.monotonic() - started < 25
        assert store.push([NewJob(new_id(), "orders", "1")])


@pytest.mark.slow
def test_a_packet_too_large_is_told() -> None:
    with (
        MariaDBServer(durable=False, settings={"max-allowed-packet": "1M"}) as server,
        closing(open_store(server.create_database("jobs"))) as store,
    ):
        store.setup()
        with pytest.raises(StoreUnavailable, match="max_allowed_packet"):
            store.push([NewJob(new_id(), "orders", '"' + "x" * 3_000_000 + '"')])
        jobs = [NewJob(one, "orders", '"' + "x" * 100_000 + '"') for one in new_ids(30)]
        store.push(jobs)
        rows = store.claim(Claim("orders", 30, "t")).rows
        states = store.settle([Commit(row.id, "t", result=row.payload) for row in rows])
        assert states == ["done"] * 30
