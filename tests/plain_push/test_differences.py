"""What is different on each SQL database: schemas, isolation, modes of the session, rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.stores.registry import open_store
from tests.plain_push.conftest import SQL_WAYS
from tests.plain_push.ways import Refused, SqlWay
from tests.servers.mariadb import MariaDBServer

on_postgres, on_mariadb, on_sqlite = (
    pytest.mark.parametrize("kind", [kind], indirect=True) for kind in ("postgresql", "mariadb", "sqlite")
)


@on_postgres
def test_the_function_finds_the_tables_of_its_schema(kind: str, pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "TheJobs"')
    inside = f'{pg_url}?options=-csearch_path%3D"TheJobs"'
    with closing(open_store(pg_url)) as other, closing(Stanchion(inside)) as app:
        other.setup()
        app.setup()
        other.push([])
        SQL_WAYS[kind](pg_url).run(["SELECT \"TheJobs\".stanchion_push('q', '1', order_key => 'o', key => 'k');"])
        assert app.queue("q").counts().pushed == 1
        assert other.queues() == []


@on_postgres
def test_a_transaction_with_a_snapshot(way: SqlWay, app: Stanchion) -> None:
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM stanchion_jobs LIMIT 1;"
    way.run([begin, way.pushing("q", "1", {"key": "k"}), "COMMIT;"])
    assert way.run([begin, way.pushing("q", "2", {"key": "k"}), "COMMIT;"]) != []
    assert app.queue("q").counts().pushed == 1


@on_postgres
def test_a_two_phase_transaction_does_not_notify(way: SqlWay, app: Stanchion) -> None:
    prepare = "PREPARE TRANSACTION 'one'; COMMIT PREPARED 'one';"
    way.run(["BEGIN;", way.pushing("q", "1", {"notify": False}).replace("False", "false"), prepare])
    assert app.queue("q").size().ready == 1


@pytest.fixture
def role(kind: str, url: str) -> Iterator[str]:
    """A role that may log in, and nothing else."""
    assert kind == "postgresql"
    role = url.rpartition("/")[2].replace("test_", "pusher_")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        yield role
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


def run_as_owner(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


GRANT = "GRANT EXECUTE ON FUNCTION stanchion_push TO {role}"


@on_postgres
def test_a_role_needs_the_right_to_execute_only(way: SqlWay, app: Stanchion, url: str, role: str) -> None:
    pusher = type(way)(url.replace("stanchion@", f"{role}@"))
    with pytest.raises(Refused, match="permission denied for function stanchion_push"):
        pusher.push("q", "1")
    run_as_owner(url, GRANT.format(role=role))
    app.store.set_semaphore("smtp", 1)
    pusher.push("q", "1")
    first = pusher.push("q", "1", key="k", order_key="o", limits=["smtp"])
    assert pusher.push("q", "1", key="k") == first
    assert app.queue("q").counts().pushed == 2
    with pytest.raises(Refused, match="permission denied for table stanchion_jobs"):
        pusher.run(["SELECT payload FROM stanchion_jobs;"])


@on_postgres
def test_rights_survive_a_setup(way: SqlWay, app: Stanchion, url: str, role: str) -> None:
    pusher = type(way)(url.replace("stanchion@", f"{role}@"))
    old = "CREATE FUNCTION stanchion_push(line text) RETURNS int LANGUAGE sql AS 'SELECT 1'"
    rounds = (
        [GRANT.format(role=role)],
        ["DROP FUNCTION stanchion_push", old, GRANT.format(role=role)],
        [GRANT.format(role="PUBLIC")],
    )
    for statements in rounds:
        run_as_owner(url, *statements, "UPDATE stanchion_meta SET version = 1")
        app.store.setup()
        pusher.push("q", "1")
    run_as_owner(url, GRANT.format(role=role).replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    pusher.push("q", "1")
    run_as_owner(url, "DROP FUNCTION stanchion_push")
    app.store.setup()
    with pytest.raises(Refused, match="permission denied"):
        pusher.push("q", "1")
    assert app.queue("q").counts().pushed == 4


@on_postgres
def test_tables_of_the_caller_are_not_taken_for_those_of_the_store(
    way: SqlWay, app: Stanchion, url: str, role: str
) -> None:
    run_as_owner(url, GRANT.format(role=role), f"CREATE SCHEMA AUTHORIZATION {role}")
    pusher = type(way)(url.replace("stanchion@", f"{role}@"))
    tables = "".join(
        f"CREATE {kind} TABLE stanchion_{table} (LIKE public.stanchion_{table} INCLUDING ALL);"
        for kind in ("", "TEMPORARY")
        for table in ("jobs", "queues", "slots", "counter_events")
    )
    run_as_owner(url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    pusher.run([tables, pusher.pushing("q", "1", {}).replace("stanchion_push", "public.stanchion_push")])
    assert app.queue("q").counts().pushed == 1


@on_mariadb
def test_a_user_needs_the_right_to_execute_only(
    way: SqlWay, app: Stanchion, url: str, mariadb_server: MariaDBServer
) -> None:
    database = url.rpartition("/")[2].partition("?")[0]
    mariadb_server.execute("CREATE USER pusher IDENTIFIED BY 'secret'")
    try:
        pusher = type(way)(url.replace(f"//{mariadb_server.user}:{mariadb_server.password}@", "//pusher:secret@"))
        with pytest.raises(Refused, match="denied"):
            pusher.push("q", "1")
        mariadb_server.execute(f"GRANT EXECUTE ON PROCEDURE `{database}`.stanchion_push TO pusher")
        app.store.set_semaphore("smtp", 1)
        first = pusher.push("q", "1", key="k", order_key="o", limits=["smtp"])
        assert pusher.push("q", "1", key="k") == first
        assert app.queue("q").counts().pushed == 1
        with pytest.raises(Refused, match="SELECT command denied"):
            pusher.run(["SELECT payload FROM stanchion_jobs;"])
        with app.store.database.connection() as connection:  # type: ignore[attr-defined]
            connection.exec_driver_sql("UPDATE stanchion_meta SET version = 1")
        app.store.setup()
        assert pusher.push("q", "1", key="k") == first, "a setup keeps the right"
    finally:
        mariadb_server.execute("DROP USER pusher")


@on_mariadb
def test_a_setup_without_the_right_to_make_it(
    way: SqlWay, app: Stanchion, url: str, mariadb_server: MariaDBServer
) -> None:
    database = url.rpartition("/")[2].partition("?")[0]
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX"
    mariadb_server.execute("CREATE USER plain IDENTIFIED BY 'secret'", f"GRANT {rights} ON `{database}`.* TO plain")
    try:
        address = url.replace(f"//{mariadb_server.user}:{mariadb_server.password}@", "//plain:secret@")
        with closing(open_store(address)) as store:
            assert store.setup() == [], "there is nothing to do"
            way.run(["UPDATE stanchion_meta SET version = 1;"])
            with pytest.raises(StoreUnavailable, match="the rights that the store's page names"):
                store.setup()
        app.store.setup()
        way.push("q", "1")
    finally:
        mariadb_server.execute("DROP USER plain")


@on_mariadb
def test_modes_of_the_session(way: SqlWay, app: Stanchion) -> None:
    modes = ("ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "ANSI", "", "ORACLE")
    for mode in modes:
        way.run([f"SET sql_mode = '{mode}';", way.pushing("q", "1", {"tenant": "a"})])
        with pytest.raises(Refused, match="printable"):
            way.run([f"SET sql_mode = '{mode}';", way.pushing("q" * 201, "1", {})])
    way.run(["SET time_zone = '+09:30';", way.pushing("q", "1", {})])
    assert app.queue("q").size().ready == len(modes) + 1


@on_mariadb
def test_the_callers_last_insert_id_stays(way: SqlWay) -> None:
    way.run(["CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 77;"])
    said = way.run(["INSERT INTO numbered VALUES ();", way.pushing("q", "1", {}), "SELECT LAST_INSERT_ID();"])
    assert said[-1] == "77"


@on_mariadb
@pytest.mark.usefixtures("way")
def test_a_snapshot_that_is_older_than_the_key(app: Stanchion) -> None:
    q = app.queue("q")
    first = q.push(1, key="k")
    with app.store.database.connection() as connection:  # type: ignore[attr-defined]
        connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT * FROM stanchion_jobs").all()
        q.pop()
        connection.exec_driver_sql("CALL stanchion_push('q', '2', '{\"key\": \"k\"}', @id)")
        second = connection.exec_driver_sql("SELECT @id").scalar()
        connection.exec_driver_sql("COMMIT")
        assert second != first.id
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT * FROM stanchion_jobs").all()
        q.pop()
        third = q.push(3, key="k")
        connection.exec_driver_sql("CALL stanchion_push('q', '4', '{\"key\": \"k\"}', @id)")
        assert connection.exec_driver_sql("SELECT @id").scalar() == third.id
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


@on_mariadb
def test_what_it_reads_is_not_locked(way: SqlWay, app: Stanchion) -> None:
    app.store.set_semaphore("smtp", 1)
    way.push("q", "1", limits=["smtp"])
    with app.store.database.connection() as one, app.store.database.connection() as other:  # type: ignore[attr-defined]
        one.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        one.exec_driver_sql("BEGIN")
        options = '{"limits": ["smtp"], "order_key": "o", "key": "k"}'
        one.exec_driver_sql("CALL stanchion_push('q', '2', %s, @id)", (options,))
        for table in ("queues", "slots"):
            assert other.exec_driver_sql(f"SELECT name FROM stanchion_{table} FOR UPDATE SKIP LOCKED").all() != []
            other.exec_driver_sql("COMMIT")
        one.exec_driver_sql("COMMIT")
        one.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


@on_sqlite
def test_an_insert_that_replaces_replaces_nothing(way: SqlWay, app: Stanchion) -> None:
    q = app.queue("q")
    q.configure(lease=77.0)
    first = q.push(1, key="k")
    for conflict in ("REPLACE", "IGNORE"):
        way.run([f"INSERT OR {conflict} INTO stanchion_push (queue, payload, key) VALUES ('q', '2', 'k');"])
    (job,) = q.reserve(5)
    assert (job.id, job.payload) == (first.id, 1)
    assert q.settings.lease == 77
    with pytest.raises(Refused, match="leave out the id"):
        way.run(["INSERT INTO stanchion_push (id, queue, payload) VALUES ('x', 'q', '1');"])
