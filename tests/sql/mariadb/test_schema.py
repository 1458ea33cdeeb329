"""The schema on MariaDB: set up by several at once, after a death, by hand, and with which rights."""

from __future__ import annotations

from contextlib import closing

import pytest
from sqlalchemy.engine import make_url
from tests.servers.mariadb import MariaDBServer
from tests.sql.mariadb.sessions import at_once, connect

from stanchion import Push, Stanchion
from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store


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
        cursor.execute("DROP INDEX stanchion_jobs_ready ON stanchion_jobs")
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
    making = "SELECT, INSERT, UPDATE, DELETE, CREATE, INDEX, CREATE ROUTINE, ALTER ROUTINE"
    mariadb_server.execute(
        "CREATE OR REPLACE USER 'maker'@'%' IDENTIFIED BY 'm'",
        "CREATE OR REPLACE USER 'user'@'%' IDENTIFIED BY 'u'",
        f"GRANT {making} ON `{database}`.* TO 'maker'@'%'",
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
