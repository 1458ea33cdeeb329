"""Whether a caller's transaction is in the database of the store, however its connection came to where it is."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from sqlalchemy import Executable, create_engine, text
from sqlalchemy.engine import make_url
from tests.conftest import NewDatabase
from tests.servers.mariadb import MariaDBServer
from tests.servers.pgbouncer import PgBouncer

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import CannotJoin, SchemaMismatch
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import CursorRunner
from stanchion_conformance.harness import transaction


def total(app: Stanchion) -> int:
    return app.queue("orders").size().total


def refuses(app: Stanchion, tx: Any) -> None:
    before = total(app)
    for _ in range(2):
        with pytest.raises(CannotJoin, match="another database, or another schema"):
            app.queue("orders").push("stray", tx=tx)
    assert total(app) == before


class TestAnySql:
    def test_a_transaction_costs_few_statements_more(
        self, app: Stanchion, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The identity comes with the clock, or is asked for by the statement that pushes; new connections cost two."""
        driver = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}.get(url.partition(":")[0], "mysql+pymysql")
        engine = create_engine(make_url(url).set(drivername=driver), pool_size=1)
        queue = app.queue("orders")
        queue.push("make the queue")
        ran: list[Executable] = []
        execute = CursorRunner.execute

        def noted(self: CursorRunner, statement: Executable, params: Any) -> None:
            ran.append(statement)
            execute(self, statement, params)

        monkeypatch.setattr(CursorRunner, "execute", noted)
        counted = []
        for _ in range(3):
            ran.clear()
            with engine.begin() as connection:
                queue.push(1, tx=connection)
            counted.append(len(ran))
        engine.dispose()
        first, *others = counted
        # PostgreSQL: the push and the signal, and for a new connection two looks and our own. The others: the clock,
        # known ids, the insert and the counter event, one of them by executemany; SQLite also looks at its files, and
        # at the queue.
        assert others == [{"sqlite": 3, "postgresql": 2, "mysql": 3}[make_url(url).get_backend_name()]] * 2
        assert first <= others[0] + 3

    def test_tables_that_are_made_anew_have_another(self, app: Stanchion, url: str) -> None:
        queue = app.queue("orders")
        with app.transaction() as tx:
            queue.push(1, tx=tx)
        driver = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}.get(url.partition(":")[0], "mysql+pymysql")
        engine = create_engine(make_url(url).set(drivername=driver))
        with engine.begin() as connection:
            queue.push(2, tx=connection)
        with engine.begin() as connection:
            names = ("jobs", "history", "queues", "counter_events", "counts", "workers")
            for name in (*names, "slots", "flow_nodes", "flow_ends", "values", "stage", "meta"):
                connection.execute(text(f"DROP TABLE stanchion_{name}"))
        app.setup()
        with engine.begin() as connection:
            app.queue("others").push(3, tx=connection)
            app.queue("others").push(4, tx=connection)
        (job, _) = app.queue("others").reserve(2)
        app.setup()
        with engine.begin() as connection:
            job.commit("done", tx=connection)
        assert app.queue("others").size().total == 1
        engine.dispose()

    def test_the_script_makes_one_for_each_database(self, app: Stanchion, url: str) -> None:
        assert app.store.setup(dry_run=True) == []
        with transaction(app.store) as connection:
            (made,) = connection.execute(text("SELECT identity FROM stanchion_meta")).scalars()
        assert len(made) >= 32
        assert url


class TestSqlite:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "jobs.db"

    @pytest.fixture
    def app(self, path: Path) -> Iterator[Stanchion]:
        app = Stanchion(f"sqlite:///{path}")
        app.setup()
        yield app
        app.close()

    def test_a_copy_of_the_file(self, app: Stanchion, path: Path, tmp_path: Path) -> None:
        app.queue("orders").push(1)
        app.close()
        copy = shutil.copy(path, tmp_path / "copy.db")
        with closing(sqlite3.connect(copy)) as elsewhere:
            refuses(app, elsewhere)
        with closing(sqlite3.connect(tmp_path / "new.db")) as elsewhere:
            refuses(app, elsewhere)
        with closing(sqlite3.connect(":memory:")) as elsewhere:
            refuses(app, elsewhere)

    def test_another_name_of_the_file(self, app: Stanchion, path: Path, tmp_path: Path) -> None:
        link = tmp_path / "link.db"
        link.symlink_to(path)
        with closing(sqlite3.connect(link)) as same, same:
            app.queue("orders").push(1, tx=same)
        assert total(app) == 1

    def test_the_file_attached_to_another(self, app: Stanchion, path: Path, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
            refuses(app, shop)
            shop.execute("ATTACH ? AS queue", [str(path)])
            with shop:
                app.queue("orders").push(1, tx=shop)
            assert total(app) == 1

    def test_one_with_tables_of_its_own_and_the_file_attached(self, app: Stanchion, path: Path, tmp_path: Path) -> None:
        other = Stanchion(f"sqlite:///{tmp_path / 'other.db'}")
        other.setup()
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            connection.execute("ATTACH ? AS queue", [str(path)])
            refuses(app, connection)
        assert total(other) == 0
        other.close()


class TestPostgres:
    def test_a_database_made_from_the_one_of_the_store(self, new_pg_database: NewDatabase, pg_url: str) -> None:
        with closing(open_store(pg_url)) as store:
            store.setup()
        copy = new_pg_database(template=pg_url.rpartition("/")[2])
        app = Stanchion(pg_url)
        with psycopg.connect(copy) as elsewhere:
            refuses(app, elsewhere)
        with psycopg.connect(pg_url) as same:
            app.queue("orders").push(1, tx=same)
        assert total(app) == 1
        app.close()

    def test_other_schemas_of_one_database_on_one_connection(self, pg_url: str) -> None:
        with psycopg.connect(pg_url, autocommit=True) as setting_up:
            for name in ("a", "b", "empty"):
                setting_up.execute(f"CREATE SCHEMA {name}")
        a, b = (Stanchion(f"{pg_url}?options=-csearch_path%3D{name}") for name in ("a", "b"))
        for app in (a, b):
            app.setup()
        with psycopg.connect(pg_url) as connection:
            for _ in range(2):
                connection.execute("SET search_path = a")
                a.queue("orders").push(1, tx=connection)
                refuses(b, connection)
                connection.execute("SET search_path = b")
                b.queue("orders").push(1, tx=connection)
                refuses(a, connection)
                connection.commit()
            (job,) = a.queue("orders").reserve()
            with pytest.raises(CannotJoin):
                job.commit(tx=connection)
            connection.execute("SET search_path = empty")
            connection.commit()
            refuses_once(a, connection)
            connection.rollback()
            connection.execute("SET search_path = a")
            job.commit(tx=connection)
        assert (total(a), total(b)) == (1, 2)
        for app in (a, b):
            app.close()

    def test_through_a_pool_of_the_server(self, pg_url: str, pgbouncer: PgBouncer) -> None:
        app = Stanchion(pg_url)
        app.setup()
        engine = create_engine(
            make_url(pgbouncer.url(pg_url.rpartition("/")[2])).set(drivername="postgresql+psycopg"),
            connect_args={"prepare_threshold": None},
        )
        for n in range(3):
            with engine.begin() as connection:
                app.queue("orders").push(n, tx=connection)
        assert total(app) == 3
        engine.dispose()
        app.close()

    def test_tables_of_the_same_transaction(self, pg_url: str) -> None:
        app, store = Stanchion(pg_url), open_store(pg_url)
        job = NewJob(new_id(), "orders", "1")
        with psycopg.connect(pg_url) as connection:
            for step in store.setup(dry_run=True):
                connection.execute(step)
            with pytest.raises(SchemaMismatch, match="no Stanchion tables"):
                app.queue("orders").push(1, tx=connection)
            with pytest.raises(CannotJoin, match="outside of tx there are no tables"):
                store.push([job], connection)
            connection.commit()
            app.queue("orders").push(1, tx=connection)
            store.push([job], connection)
        assert total(app) == 2
        app.close()
        store.close()


def refuses_once(app: Stanchion, tx: Any) -> None:
    with pytest.raises(CannotJoin, match="another database, or another schema"):
        app.queue("orders").push("stray", tx=tx)


class TestMariaDB:
    def test_other_databases_on_one_connection(self, mariadb_server: MariaDBServer, mariadb_url: str) -> None:
        a = Stanchion(mariadb_url)
        a.setup()
        name = make_url(mariadb_url).database
        mariadb_server.execute(f"CREATE DATABASE {name}_copy", f"CREATE DATABASE {name}_empty")
        with mariadb_server.connect_as_root() as root, root.cursor() as cursor:
            cursor.execute(f"SHOW TABLES FROM {name}")
            for (table,) in cursor.fetchall():
                cursor.execute(f"CREATE TABLE {name}_copy.{table} LIKE {name}.{table}")
                cursor.execute(f"INSERT INTO {name}_copy.{table} SELECT * FROM {name}.{table}")
        with pymysql.connect(
            host="127.0.0.1", port=mariadb_server.port, user="root", ssl_disabled=True, database=name
        ) as connection:
            for _ in range(2):
                a.queue("orders").push(1, tx=connection)
                for other in ("copy", "empty"):
                    connection.cursor().execute(f"USE {name}_{other}")
                    refuses(a, connection)
                connection.cursor().execute(f"USE {name}")
                connection.commit()
        with pymysql.connect(host="127.0.0.1", port=mariadb_server.port, user="root", ssl_disabled=True) as connection:
            refuses(a, connection)
        assert total(a) == 2
        a.close()
        for other in ("copy", "empty"):
            mariadb_server.drop_database(f"{name}_{other}")
