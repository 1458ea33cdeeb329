"""Pushes by SQL: within transactions and triggers, after an upgrade, by the printed script."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.stores.registry import open_store
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import all_at_once
from tests.conftest import NewDatabase
from tests.plain_push.conftest import SQL_WAYS
from tests.plain_push.ways import MariaDBClient, Psql, Refused, Sqlite3, SqlWay, refuses_keys_of_partitions

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer VARCHAR(40))"
PUSHES = {
    Psql: """
        CREATE FUNCTION pushed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM stanchion_push('orders', to_jsonb(NEW), tenant => NEW.customer);
            RETURN NEW;
        END $$;
        CREATE TRIGGER pushed AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION pushed();
    """,
    MariaDBClient: """
        DELIMITER //
        CREATE TRIGGER pushed AFTER INSERT ON orders FOR EACH ROW CALL stanchion_push(
            'orders', JSON_OBJECT('id', NEW.id, 'customer', NEW.customer), JSON_OBJECT('tenant', NEW.customer), @id
        ) //
        DELIMITER ;
    """,
    Sqlite3: """
        CREATE TRIGGER pushed AFTER INSERT ON orders BEGIN
            INSERT INTO stanchion_push (queue, payload, tenant)
            VALUES ('orders', json_object('id', NEW.id, 'customer', NEW.customer), NEW.customer);
        END;
    """,
}
DROPS = {
    Psql: "DROP FUNCTION stanchion_push;",
    MariaDBClient: "DROP PROCEDURE stanchion_push;",
    Sqlite3: "DROP VIEW stanchion_push;",
}
pytestmark = pytest.mark.parametrize("kind", SQL_WAYS, indirect=True)


def remade(store: SqlStore) -> list[str]:
    """Have a database of an older version without the routine brought up to date."""
    with store.database.connection() as connection:
        connection.exec_driver_sql("UPDATE stanchion_meta SET version = 1")
    return store.setup()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_it_is_part_of_the_callers_transaction(way: SqlWay, app: Stanchion, end: str) -> None:
    call = way.pushing("q", "1", {"order_key": "o"}).replace("BEGIN IMMEDIATE;", "").replace("COMMIT;", "")
    way.run([f"{ORDERS};", "BEGIN;", "INSERT INTO orders VALUES (1, 'a');", call, f"{end};"])
    stored = int(end == "COMMIT")
    assert way.run(["SELECT count(*) FROM orders;"]) == [str(stored)]
    assert app.queue("q").size().ready == app.queue("q").counts().pushed == stored
    assert [job.payload for job in app.queue("q").reserve()] == [1] * stored


def test_a_trigger_pushes(way: SqlWay, app: Stanchion) -> None:
    way.run([f"{ORDERS};", PUSHES[type(way)]])
    rows = ", ".join(f"({n}, 'customer {n % 3}')" for n in range(20))
    way.run([f"INSERT INTO orders VALUES {rows};", "BEGIN;", "INSERT INTO orders VALUES (20, 'x');", "ROLLBACK;"])
    jobs = app.queue("orders").reserve(100)
    assert [(job.payload, job.tenant) for job in jobs] == [
        ({"id": n, "customer": f"customer {n % 3}"}, f"customer {n % 3}") for n in range(20)
    ], "in the order of the rows"
    assert app.queue("orders").counts().pushed == 20


def test_an_upgrade_makes_it_again(way: SqlWay, store: SqlStore, app: Stanchion) -> None:
    way.run([DROPS[type(way)]])
    with pytest.raises(Refused):
        way.push("q", "1")
    if isinstance(way, Psql):  # one of another release
        way.run(["CREATE FUNCTION stanchion_push(line text, payload jsonb) RETURNS int LANGUAGE sql AS 'SELECT 1';"])
    assert any("stanchion_push" in step for step in remade(store))
    assert any("stanchion_push" in step for step in remade(store)), "one that is there is replaced"
    assert store.setup() == store.setup(dry_run=True) == []
    way.push("q", "1")
    assert app.queue("q").counts().pushed == 1


def test_a_setup_makes_what_a_dump_has_left_out(way: SqlWay, store: SqlStore) -> None:
    way.run([DROPS[type(way)]])
    (*_, last) = store.setup(dry_run=True)
    assert "stanchion_push" in last
    with pytest.raises(Refused):
        way.push("q", "1")
    assert store.setup() != []
    way.push("q", "1")
    assert store.setup() == []


def test_setups_at_once(way: SqlWay, store: SqlStore, url: str) -> None:
    stores = [open_store(url) for _ in range(4)]
    with store.database.connection() as connection:
        connection.exec_driver_sql("UPDATE stanchion_meta SET version = 1")
    all_at_once([one.setup for one in stores])
    for one in stores:
        one.close()
    way.push("q", "1")


@pytest.mark.nightly_except("postgresql", "sqlite")
def test_the_printed_script_makes_it(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    if kind == "postgresql":
        new_database: NewDatabase = request.getfixturevalue("new_pg_database")
        url = new_database()
    elif kind == "mariadb":
        url = request.getfixturevalue("mariadb_url")
    command = [str(Path(sys.executable).parent / "stanchion"), "setup", "--sql", "--url", url]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    way = SQL_WAYS[kind](url)
    way.run([script])
    with closing(open_store(url)) as store:
        store.check()
        assert store.setup() == []
        way.push("q", "1")
        assert store.stats(["q"], ["totals"])["q"].totals.pushed == 1


def test_it_refuses_keys_of_a_queue_with_partitions(way: SqlWay, app: Stanchion) -> None:
    """It does not know where they are: such a job could run beside another one of its key."""
    refuses_keys_of_partitions(way, app)
    before = app.queue("before")
    before.push(0, key="k")
    before.configure(partitions=3)  # its keys stay in the queue itself
    way.push("before", "1", key="k")
    way.push("before", "1", key="other")
    assert sorted(job.payload for job in before.reserve(5)) == [0, 1]
