"""PostgreSQL behind a pooler in transaction mode, which runs each transaction on another session."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer

from stanchion import Stanchion, StoreUnavailable
from stanchion.stores.postgres.connections import sessions, shared_statements
from stanchion.stores.postgres.dialect import PostgresDialect
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import IDLE_SECONDS
from stanchion_conformance.harness import QUEUE

SESSIONS = 4


@pytest.fixture
def pool(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A pool of few sessions, so that each client meets those of others."""
    with PgBouncer(postgres_server, pool_size=SESSIONS) as pool:
        yield pool


@pytest.fixture
def pooled_url(pool: PgBouncer, pg_store_url: str) -> str:
    """The URL of a store through the pool."""
    return pool.url(str(make_url(pg_store_url).database))


def database_of(app: Stanchion) -> Database:
    database = app.store.database  # type: ignore[attr-defined]
    assert isinstance(database, Database)
    return database


def work(app: Stanchion, jobs: int) -> None:
    """Use the statements of every hot verb."""
    queue = app.queue(QUEUE)
    queue.configure(lanes=4)
    for n in range(jobs):
        queue.push(n, tenant=f"t{n}")
        queue.push(n, key=f"k{n}")
        for job in queue.reserve(2):
            job.commit()
        queue.size()


def test_the_settings_hold_in_each_transaction_and_not_beyond(pooled_url: str) -> None:
    names = ("jit", "plan_cache_mode", "enable_seqscan", "idle_in_transaction_session_timeout")
    shown = [text(f"SHOW {name}") for name in names]
    ours = ["off", "force_generic_plan", "off", f"{IDLE_SECONDS:.0f}s"]
    with closing(Stanchion(pooled_url)) as app, psycopg.connect(pooled_url, autocommit=True) as other:
        database = database_of(app)
        assert database.read(lambda run: [run.rows(one)[0][0] for one in shown]) == ours
        assert database.write(lambda run, _again: [run.rows(one)[0][0] for one in shown]) == ours
        assert database.write(lambda run, _again: [run.rows(one)[0][0] for one in shown], together=True) == ours
        with app.transaction() as transaction:
            assert [transaction.scalar(one) for one in shown] == [*ours[:3], "0"]
        assert database.write(lambda run, _again: [run.rows(one)[0][0] for one in shown]) == ours
        for _ in range(2 * SESSIONS):
            assert [other.execute(f"SHOW {name}").fetchall()[0][0] for name in names] == ["on", "auto", "on", "0"]


def test_settings_of_the_role_are_not_sent_again(
    pooled_url: str, pg_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an operator has stored them with the database or the role, each statement commits itself as it is."""
    name = make_url(pg_store_url).database
    with psycopg.connect(pg_store_url, autocommit=True) as owner:
        for setting in ("jit = off", "plan_cache_mode = force_generic_plan", "enable_seqscan = off"):
            owner.execute(f"ALTER DATABASE {name} SET {setting}")
    alone: list[sessions.Session] = []
    run_alone = sessions._run_alone

    def noted(session: sessions.Session, work: Callable[[], object]) -> None:
        alone.append(session)
        run_alone(session, work)

    monkeypatch.setattr(sessions, "_run_alone", noted)
    with closing(Stanchion(pooled_url)) as app:
        queue = app.queue(QUEUE)
        for n in range(8):
            queue.push(n)
            (job,) = queue.reserve(1)
            job.commit()
        # A session that lacks a statement gets all of them, in a transaction.
        assert len(alone) <= SESSIONS, "a push, a claim and a commit would be three each time"
        with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as other:
            for _ in range(3 * SESSIONS):
                other.execute("DEALLOCATE ALL")
        queue.push("after all statements are gone")
        (job,) = queue.reserve(1)
        job.commit()
        assert queue.size().total == 0


def test_a_direct_session_keeps_the_settings(pg_store_url: str) -> None:
    # The options of the URL used to replace them.
    with closing(Stanchion(f"{pg_store_url}?options=-csearch_path%3Dpublic")) as app:
        database = database_of(app)
        assert database.read(lambda run: run.rows(text("SHOW plan_cache_mode"))) == [("force_generic_plan",)]
        with app.transaction() as transaction:
            assert transaction.scalar(text("SHOW idle_in_transaction_session_timeout")) == "0"
        shown = text("SHOW idle_in_transaction_session_timeout")
        assert database.read(lambda run: run.rows(shown)) == [(f"{IDLE_SECONDS:.0f}s",)]


@pytest.mark.parametrize("pooled", [False, True])
def test_nothing_is_compiled(pooled: bool) -> None:
    """Neither directly nor through the pool, however dear the planner thinks our statements are."""
    settings = {"shared_preload_libraries": "pg_stat_statements"}
    with PostgresServer(fsync=False, settings=settings) as server, PgBouncer(server) as pool:
        url = server.create_database("jobs")
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("CREATE EXTENSION pg_stat_statements")
            for cost in ("jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost"):
                owner.execute(f"ALTER DATABASE jobs SET {cost} = 0")
        with closing(Stanchion(url)) as app:
            app.setup()
        with closing(Stanchion(pool.url("jobs") if pooled else url)) as app:
            work(app, 10)
        with psycopg.connect(url, autocommit=True) as owner:
            compiled: dict[bool, int] = dict(
                owner.execute(
                    "SELECT query ~ 'stanchion_(jobs|history)', sum(jit_functions) FROM pg_stat_statements GROUP BY 1"
                ).fetchall()
            )
            owner.execute("SELECT count(*) FROM stanchion_jobs")
            probe = owner.execute(
                "SELECT jit_functions > 0 FROM pg_stat_statements WHERE query = 'SELECT count(*) FROM stanchion_jobs'"
            ).fetchone()
    assert compiled[True] == 0
    assert probe == (True,), "the server compiles nothing, so this test shows nothing"


def test_sessions_that_lack_the_statements(pooled_url: str) -> None:
    """A pool may close sessions, reset them, or open more: then none of our statements is prepared there."""
    with closing(Stanchion(pooled_url)) as app:
        work(app, 8)
        assert prepared(pooled_url), "nothing is prepared, so this test shows nothing"
        for _ in range(5):
            with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as other:
                for _ in range(3 * SESSIONS):
                    other.execute("DEALLOCATE ALL")
            work(app, 2)
        assert app.queue(QUEUE).size().total == 0


def test_clients_share_the_statements_of_a_session(pooled_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names tell the statements apart, not the clients: no process runs a statement of another one."""
    for first in range(3):
        # As in a process of its own, which comes to its statements in another order.
        monkeypatch.setattr(shared_statements, "_names", {})
        monkeypatch.setattr(shared_statements, "_uses", Counter())
        with closing(Stanchion(pooled_url)) as app:
            calls: list[Callable[[], object]] = [app.queue(QUEUE).size, app.queue(QUEUE).find, app.queue(QUEUE).counts]
            for call in calls[first:] + calls[:first]:
                for _ in range(8):
                    call()
            work(app, 8)
            assert app.queue(QUEUE).size().total == 0
    found = prepared(pooled_url)
    assert found
    # A pool that follows prepared statements gives them names of its own, also by the text.
    assert not {name for name in found if not name.startswith(("stanchion_", "PGBOUNCER_"))}
    assert max(Counter(found.values()).values()) <= 2, "the same text, with other types of parameters"


def prepared(url: str) -> dict[str, str]:
    """Return the prepared statements of the sessions that answer, by name."""
    found: dict[str, str] = {}
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as other:
        for _ in range(2 * SESSIONS):
            found.update(other.execute("SELECT name, statement FROM pg_prepared_statements").fetchall())
    return found


def test_many_threads_and_few_sessions(pooled_url: str) -> None:
    each, threads = 60, 2 * SESSIONS
    done: Counter[int] = Counter()
    errors: list[BaseException] = []
    with closing(Stanchion(pooled_url)) as app:
        queue = app.queue(QUEUE)

        def target(first: int) -> None:
            try:
                for n in range(first, first + each):
                    queue.push(n, key=str(n) if n % 3 == 0 else None)
                    for job in queue.reserve(1):
                        job.commit()
                        done[job.payload] += 1
            except BaseException as error:
                errors.append(error)

        running = [threading.Thread(target=target, args=(each * n,)) for n in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(120)
        assert not any(thread.is_alive() for thread in running)
        for job in queue.reserve(each * threads):
            job.commit()
            done[job.payload] += 1
    assert not errors
    assert done == Counter(range(each * threads))


def test_a_lost_statement_is_no_missing_database(pg_store_url: str) -> None:
    """The text of the error says that something does not exist; its code says what."""
    dialect = PostgresDialect(make_url(pg_store_url))
    with (
        psycopg.connect(pg_store_url, autocommit=True) as connection,
        pytest.raises(psycopg.errors.InvalidSqlStatementName) as caught,
    ):
        connection.execute("EXECUTE gone")
    assert "does not exist" in str(caught.value)
    assert dialect.worth_retrying(caught.value)


@pytest.mark.parametrize(
    ("part", "instead", "lasting"),
    [("/test_", "/gone_", True), ("stanchion@", "nobody@", True), ("127.0.0.1", "no.host.invalid", True)],
)
def test_a_refused_connection_is_judged_by_its_code(pg_store_url: str, part: str, instead: str, lasting: bool) -> None:
    with closing(Stanchion(pg_store_url.replace(part, instead))) as app, pytest.raises(StoreUnavailable) as caught:
        app.queue(QUEUE).push(1)
    assert caught.value.lasting == lasting


def test_a_wrong_password_is_lasting() -> None:
    with PostgresServer(fsync=False, password="right", settings={"lc_messages": "C"}) as server:
        with (
            closing(Stanchion(server.url().replace(":right@", ":wrong@"))) as app,
            pytest.raises(StoreUnavailable) as caught,
        ):
            app.queue(QUEUE).push(1)
        assert caught.value.lasting


@pytest.mark.usefixtures("short_calls")
def test_a_server_that_is_away_is_not_lasting(pg_store_url: str) -> None:
    with (
        closing(Stanchion(pg_store_url.replace(f":{make_url(pg_store_url).port}/", ":9/"))) as app,
        pytest.raises(StoreUnavailable) as caught,
    ):
        app.queue(QUEUE).push(1)
    assert not caught.value.lasting
