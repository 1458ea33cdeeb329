"""A database of an older version is brought up to date by the steps added since; one of a newer version is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect
from sqlalchemy.engine import Connection

from stanchion.core.ids import new_ids
from stanchion.errors import SchemaMismatch
from stanchion.stores.fields.jobs import LONG
from stanchion.stores.fields.sql import VERSION
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine import setup
from stanchion.stores.sql.store import SqlStore

INDEX = "CREATE INDEX stanchion_workers_colour ON stanchion_workers (colour)"


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    """A store whose database has this release's schema."""
    urls = {"postgresql": "pg_url", "mariadb": "mariadb_url"}
    path = f"sqlite:///{tmp_path / 'jobs.db'}"
    url: str = path if request.param == "sqlite" else request.getfixturevalue(urls[request.param])
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        store.setup()
        yield store


def add_colours(connection: Connection) -> None:
    """Bring the schema one version further."""
    if "colour" not in columns(connection):
        connection.exec_driver_sql("ALTER TABLE stanchion_workers ADD COLUMN colour VARCHAR(10)")
    if not {"stanchion_workers_colour"} & indexes(connection, "workers"):
        connection.exec_driver_sql(INDEX)


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process know one step more."""
    monkeypatch.setattr(setup, "MIGRATIONS", (*setup.MIGRATIONS, add_colours))
    monkeypatch.setattr(setup, "VERSION", VERSION + 1)


def columns(connection: Connection) -> set[str]:
    return {column["name"] for column in inspect(connection).get_columns("stanchion_workers")}


def indexes(connection: Connection, *tables: str) -> set[str | None]:
    found = inspect(connection)
    return {index["name"] for table in tables for index in found.get_indexes(f"stanchion_{table}")}


def has_colours(store: SqlStore) -> bool:
    with store.database.connection() as connection:
        return "colour" in columns(connection) and "stanchion_workers_colour" in indexes(connection, "workers")


def test_jobs_are_brought_along(store: SqlStore, request: pytest.FixtureRequest) -> None:
    ids = new_ids(2)
    store.push([NewJob(one, "q", "1") for one in ids])
    request.getfixturevalue("next_release")
    if store.dialect.makes_schema:
        store.check()
        assert has_colours(store)
    else:
        with pytest.raises(SchemaMismatch, match="stanchion setup"):
            store.check()
        assert not has_colours(store)
    store.setup()
    assert store.setup() == []
    store.check()
    assert has_colours(store)
    assert [row.id for row in store.claim(Claim("q", 10, "t", "w")).rows] == ids


def test_columns_tables_and_indexes_of_later_releases_are_added(store: SqlStore) -> None:
    (job_id,) = new_ids(1)
    store.push([NewJob(job_id, "q", "1")])
    everything, length = described(store), slot_names(store)
    narrow = {"mysql": "MODIFY COLUMN name VARCHAR(200) NOT NULL", "postgresql": "ALTER COLUMN name TYPE VARCHAR(200)"}
    with store.database.connection() as connection:
        on = " ON stanchion_history" if store.dialect.names[0] == "mysql" else ""
        for change in (
            f"DROP INDEX stanchion_history_page{on}",
            "ALTER TABLE stanchion_queues DROP COLUMN has_dead_letters",
            "ALTER TABLE stanchion_history DROP COLUMN result",
            "DROP TABLE stanchion_values",
            "UPDATE stanchion_meta SET version = 1",
        ):
            connection.exec_driver_sql(change)
        if change := narrow.get(store.dialect.names[0], ""):
            connection.exec_driver_sql(f"ALTER TABLE stanchion_slots {change}")
    steps = store.setup()
    assert len([step for step in steps if "ADD COLUMN" in step]) == 2
    assert described(store) == everything
    assert slot_names(store) == length
    assert store.setup() == []
    assert [row.id for row in store.claim(Claim("q", 10, "t", "w")).rows] == [job_id]


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_postgresql_compresses_contents_by_lz4(store: SqlStore) -> None:
    """In new tables and in tables of earlier versions, where the server can."""
    assert compressed(store) == set(LONG)
    with store.database.connection() as connection:
        connection.exec_driver_sql("ALTER TABLE stanchion_jobs ALTER payload SET COMPRESSION default")
        connection.exec_driver_sql("UPDATE stanchion_meta SET version = 6")
    assert compressed(store) == {"arrival_payload", "entry_payload", "kept_payloads", "result"}
    assert any("SET COMPRESSION lz4" in step for step in store.setup())
    assert compressed(store) == set(LONG)


def compressed(store: SqlStore) -> set[str]:
    """Return the columns of jobs that are compressed by LZ4 wherever they are."""
    with store.database.connection() as connection:
        found = connection.exec_driver_sql("""
            SELECT attname FROM pg_attribute
            WHERE attrelid IN ('stanchion_jobs'::regclass, 'stanchion_history'::regclass, 'stanchion_stage'::regclass)
            GROUP BY attname HAVING bool_and(attcompression = 'l')
        """)
        return set(found.scalars())


def slot_names(store: SqlStore) -> int | None:
    """Return the length of the names of slots."""
    with store.database.connection() as connection:
        (found,) = (c["type"] for c in inspect(connection).get_columns("stanchion_slots") if c["name"] == "name")
        return getattr(found, "length", None)


def described(store: SqlStore) -> dict[str, tuple[set[str], set[str | None]]]:
    """Return the columns and the indexes of each table."""
    with store.database.connection() as connection:
        found = inspect(connection)
        return {
            table: (
                {column["name"] for column in found.get_columns(table)},
                {index["name"] for index in found.get_indexes(table)},
            )
            for table in found.get_table_names()
        }


@pytest.mark.usefixtures("next_release")
def test_a_new_database_takes_all_steps(store: SqlStore) -> None:
    store.check()
    assert has_colours(store)


def test_a_newer_database_is_refused(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(setup, "MIGRATIONS", (*setup.MIGRATIONS, add_colours))
        newer.setattr(setup, "VERSION", VERSION + 1)
        store.setup()
    for call in (store.check, store.setup, lambda: store.setup(dry_run=True)):
        with pytest.raises(SchemaMismatch, match=f"of version {VERSION + 1}, newer than this release's"):
            call()


def test_a_setup_that_died_is_finished(store: SqlStore) -> None:
    with store.database.connection() as connection:
        made = indexes(connection, "jobs", "history")
        on = " ON stanchion_history" if store.dialect.names[0] == "mysql" else ""
        connection.exec_driver_sql(f"DROP INDEX stanchion_history_page{on}")
        connection.exec_driver_sql("DELETE FROM stanchion_meta")
    store.setup()
    store.check()
    with store.database.connection() as connection:
        assert indexes(connection, "jobs", "history") == made


def test_the_script_is_the_step_from_there(store: SqlStore, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("next_release")
    steps = store.setup(dry_run=True)
    assert len([step for step in steps if "stanchion_push" not in step]) == 3
    assert store.setup(dry_run=True) == steps, "telling them changed something"
    with store.database.connection() as connection:
        for step in steps:
            connection.exec_driver_sql(step)
    assert store.setup(dry_run=True) == []
    store.check()
    assert has_colours(store)


def test_a_script_makes_no_database(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'jobs.db'}")) as store:
        assert any("CREATE TABLE stanchion_jobs" in step for step in store.setup(dry_run=True))
    assert list(tmp_path.iterdir()) == []
