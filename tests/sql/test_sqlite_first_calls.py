"""The first calls to a SQLite file answer without SQLAlchemy what the general way answers, and make the same schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.sql.schema_file import FILE, schema

from stanchion.errors import InvalidInput, SchemaMismatch, StoreUnavailable
from stanchion.stores.fields.sql import VERSION
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.sql.engine.setup import MIGRATIONS
from stanchion.stores.sqlite.first_reads import FirstReads
from stanchion.stores.sqlite.store import SqliteStore, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(open_store(f"sqlite:///{path}")) as store:
        yield store


def run(path: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return [row for one in statements for row in connection.execute(one)]


def made(path: Path) -> list[Any]:
    return run(path, "SELECT type, name, tbl_name, trim(sql, char(10)) FROM sqlite_master ORDER BY type, name")


class TestSchema:
    def test_the_file_has_the_statements_of_this_release(self) -> None:
        assert FILE.read_text("utf-8") == schema(), "python -m tests.sql.schema_file writes it"
        assert len(MIGRATIONS) == VERSION

    def test_both_ways_make_the_same(self, store: SqliteStore, path: Path, tmp_path: Path) -> None:
        other = tmp_path / "other.db"
        with closing(open_store(f"sqlite:///{other}")) as general:
            general.setup()
        store.check()
        assert not store._loaded
        assert made(path) == made(other)
        for one in (path, other):
            ((version, identity),) = run(one, "SELECT version, identity FROM stanchion_meta")
            assert (version, len(identity)) == (VERSION, 32)
        assert run(path, "SELECT identity FROM stanchion_meta") != run(other, "SELECT identity FROM stanchion_meta")

    def test_beside_the_tables_of_another_program(self, store: SqliteStore, path: Path) -> None:
        run(path, "CREATE TABLE stanchions (id)", "INSERT INTO stanchions VALUES (1)")
        store.check()
        assert not store._loaded
        assert run(path, "SELECT * FROM stanchions") == [(1,)]
        assert run(path, "SELECT version FROM stanchion_meta") == [(VERSION,)]

    def test_what_a_setup_left_half_done_is_completed(self, store: SqliteStore, path: Path) -> None:
        run(path, "CREATE TABLE stanchion_meta (version INTEGER PRIMARY KEY, identity VARCHAR(40))")
        store.check()
        assert store._loaded
        assert run(path, "SELECT version FROM stanchion_meta") == [(VERSION,)]
        assert run(path, "SELECT count(*) FROM stanchion_jobs") == [(0,)]

    def test_a_newer_schema_is_refused(self, store: SqliteStore, path: Path) -> None:
        store.check()
        run(path, f"UPDATE stanchion_meta SET version = {VERSION + 1}")
        with closing(open_store(f"sqlite:///{path}")) as other, pytest.raises(SchemaMismatch, match="newer than"):
            other.check()

    def test_an_older_one_is_upgraded(self, store: SqliteStore, path: Path) -> None:
        store.check()
        run(path, f"UPDATE stanchion_meta SET version = {VERSION - 1}", "DROP VIEW stanchion_push")
        with closing(open_store(f"sqlite:///{path}")) as other:
            other.check()
        assert run(path, "SELECT version FROM stanchion_meta") == [(VERSION,)]

    def test_an_error_on_the_way_leaves_nothing(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "stanchion.stores.sqlite.first_reads._schema", lambda: "BEGIN IMMEDIATE; CREATE TABLE stanchion_x (a); no"
        )
        assert not store._reads.has_schema()
        assert made(path) == []
        store.check()  # the general way makes it
        assert run(path, "SELECT version FROM stanchion_meta") == [(VERSION,)]

    def test_a_lock_of_another_process(self, store: SqliteStore, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA journal_mode=WAL")
            other.execute("BEGIN IMMEDIATE")
            assert not store._reads.has_schema()
        store.check()
        assert run(path, "SELECT version FROM stanchion_meta") == [(VERSION,)]

    def test_a_file_that_is_no_database(self, store: SqliteStore, path: Path) -> None:
        path.write_text("hello, this is a text of more than a hundred characters " * 3)
        with pytest.raises(StoreUnavailable, match="not a database"):
            store.check()

    def test_a_folder_that_is_missing(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path}/none/jobs.db")
        with closing(store), pytest.raises(StoreUnavailable, match="the folder exists"):
            store.check()


class TestReads:
    def test_settings_and_values(self, store: SqliteStore, path: Path) -> None:
        with closing(open_store(f"sqlite:///{path}")) as other:
            other.check()
            other.configure("b", {"lanes": 3, "timeout": 2.5, "declared": {"lanes": 3}})
            other.configure("ü", {"paused": True, "max_rate": 4.0})
            other.compare_and_set("kind", "ö", "2", 0)
            other.compare_and_set("kind", "a", "1", 0)
            names = ["ü", "none", "b"]
            assert store.queues(names) == other.queues(names)
            assert [one.declared for one in store.queues(names)] == [{"lanes": 3}, {}]
            assert store.values("kind") == other.values("kind")
            assert store.values("kind") == [VersionedValue("a", "1", 1), VersionedValue("ö", "2", 1)]
            assert (store.queues([]), store.values("none")) == ([], [])
            assert store.values("kind", ["a", "none"]) == [VersionedValue("a", "1", 1)]
            assert store.values("kind", []) == []
            assert abs(store.now() - other.now()) < 60_000_000
            assert not store._loaded
            assert store.queues() == other.queues()

    def test_bytes_in_the_place_of_texts(self, store: SqliteStore, path: Path) -> None:
        store.check()
        with closing(open_store(f"sqlite:///{path}")) as other:
            other.configure("q", {"dead_letter": "dead"})
            run(path, "UPDATE stanchion_queues SET dead_letter = CAST('late' AS BLOB)")
            assert store._reads.queues(["q"]) is None
            assert store.queues(["q"]) == other.queues(["q"])
            assert store.queues(["q"])[0].dead_letter == "late"

    def test_a_read_leaves_no_transaction_after_an_interruption(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(connection: sqlite3.Connection) -> Any:
            connection.execute("BEGIN IMMEDIATE")
            raise KeyboardInterrupt

        monkeypatch.setattr("stanchion.stores.sqlite.first_reads._version", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.check()
        assert store._own._connection is None

    def test_the_general_way_reads_once_it_is_there(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        check, queues, values = store.check, store.queues, store.values
        check()
        first_now = store.now
        store.clock_offset = 86_400.0  # loads it
        monkeypatch.setattr(FirstReads, "_tried", lambda *_: pytest.fail("the short way was taken"))
        assert abs(first_now() - store.now()) < 60_000_000
        assert queues(["q"]) == store.queues(["q"]) == []
        assert values("kind") == store.values("kind") == []
        store.check()


@pytest.mark.parametrize("path", ["a.db", "/tmp/a b.db", "/x/%41.db", "/a:b@c.db", "ü/#1.db", "~/q.db", "//x/y.db"])
@pytest.mark.parametrize("option", ["", "?synchronous=normal"])
def test_the_parts_of_a_url(path: str, option: str) -> None:
    url = f"sqlite:///{path}{option}"
    with closing(open_store(url)) as store, closing(open_store(url.replace("sqlite:", "sqlite+pysqlite:"))) as other:
        assert (store._path, store._synchronous) == (other._path, other._synchronous)
        assert store._synchronous == ("normal" if option else "full")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite:///a.db?synchronous=sometimes", "synchronous must be one of"),
        ("sqlite:///a.db?mode=ro", "unknown option 'mode'"),
        ("sqlite+aiosqlite:///a.db", "use sqlite:///"),
    ],
)
def test_urls_that_are_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        open_store(url)
