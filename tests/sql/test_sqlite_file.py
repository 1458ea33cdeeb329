"""A SQLite file that is deleted, moved or replaced while processes have it open."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.worker.conftest import until

from stanchion import Stanchion
from stanchion.errors import CannotJoin, StoreUnavailable
from stanchion.stores.fields.sql import VERSION
from stanchion.stores.sql.store import SqlStore
from stanchion.worker import Worker

FILES = ("", "-wal", "-shm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def app(path: Path) -> Iterator[Stanchion]:
    """An app that has the file open, with a connection of its own and one in its pool."""
    app = Stanchion(f"sqlite:///{path}")
    app.queue("orders").push(1)
    app.queue("orders").size()
    yield app
    app.close()


def move(path: Path, to: Path) -> None:
    """Move the file, with what belongs to it, as it is."""
    for end in FILES:
        if Path(f"{path}{end}").exists():
            Path(f"{path}{end}").rename(f"{to}{end}")


def delete(path: Path) -> None:
    for end in FILES:
        Path(f"{path}{end}").unlink(missing_ok=True)


def every_use(app: Stanchion) -> list[Callable[[], object]]:
    def joined() -> None:
        with app.transaction() as tx:
            app.queue("orders").push(2, tx=tx)

    queue = app.queue("orders")
    return [lambda: queue.push(2), queue.size, queue.reserve, queue.pop, joined, lambda: queue.find(text="x")]


class TestGone:
    def test_every_use_says_so(self, app: Stanchion, path: Path) -> None:
        delete(path)
        for use in every_use(app) * 2:
            with pytest.raises(StoreUnavailable, match="deleted or moved while this process had it open") as caught:
                use()
            assert not caught.value.lasting
        assert list(path.parent.iterdir()) == []

    def test_it_goes_on_where_it_is_put_back(self, app: Stanchion, path: Path) -> None:
        queue = app.queue("orders")
        move(path, path.with_name("moved.db"))
        with pytest.raises(StoreUnavailable):
            queue.push(2)
        move(path.with_name("moved.db"), path)
        queue.push(3)
        assert [job.payload for job in queue.reserve(9)] == [1, 3]

    def test_setup_makes_a_new_one(self, app: Stanchion, path: Path) -> None:
        delete(path)
        app.setup()
        app.queue("orders").push(2)
        assert [job.payload for job in app.queue("orders").reserve(9)] == [2]
        assert [queue.name for queue in app.queues()] == ["orders"]

    def test_that_of_another_process_is_taken(self, app: Stanchion, path: Path) -> None:
        delete(path)
        Stanchion(f"sqlite:///{path}").setup()
        app.queue("orders").push(2)
        assert [job.payload for job in app.queue("orders").reserve(9)] == [2]

    def test_the_health_of_a_worker_says_so(self, app: Stanchion, path: Path) -> None:
        @app.task(name="work", queue="work")
        def work() -> None: ...

        with closing(Stanchion(f"sqlite:///{path}")) as other:
            worker = Worker(app, threads=1, poll=0.02, heartbeat=0.2)
            worker.start()
            try:
                until(lambda: worker.healthy)
                move(path, path.with_name("moved.db"))
                until(lambda: not worker.healthy)
                assert "deleted or moved" in str(worker._health.trouble())
                move(path.with_name("moved.db"), path)
                until(lambda: worker.healthy)
                handle = other.enqueue("work", queue="work")
                assert handle.result(timeout=60) is None
            finally:
                worker.stop()


class TestReplaced:
    def test_by_another_store_it_is_opened(
        self, app: Stanchion, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with closing(Stanchion(f"sqlite:///{tmp_path / 'new.db'}")) as new:
            new.setup()
        delete(path)
        move(tmp_path / "new.db", path)
        app.queue("orders").push(2)
        assert "was replaced while this process had it open" in caplog.text
        with closing(Stanchion(f"sqlite:///{path}")) as other:
            assert [job.payload for job in other.queue("orders").reserve(9)] == [2]
            assert [queue.name for queue in other.queues()] == ["orders"], "it knew the queue of the old file"

    def test_by_a_copy_it_is_opened(self, app: Stanchion, path: Path, tmp_path: Path) -> None:
        app.close()
        shutil.copy(path, tmp_path / "copy.db")
        app.queue("orders").push("only in the old one")
        delete(path)
        os.replace(tmp_path / "copy.db", path)
        app.queue("orders").push(2)
        assert [job.payload for job in app.queue("orders").reserve(9)] == [1, 2]

    @pytest.mark.parametrize("what", ["nothing", "text", "other tables", "an older version"])
    def test_by_anything_else_it_is_left_alone(self, app: Stanchion, path: Path, tmp_path: Path, what: str) -> None:
        other = tmp_path / "other"
        other.write_bytes(b"no database" * 1000 if what == "text" else b"")
        if what in ("other tables", "an older version"):
            with closing(sqlite3.connect(other)) as connection, connection:
                table = "effects" if what == "other tables" else "stanchion_meta"
                connection.execute(f"CREATE TABLE {table} (version)")
                connection.execute(f"INSERT INTO {table} VALUES ({VERSION - 1})")
        before = other.read_bytes()
        delete(path)
        os.replace(other, path)
        for use in every_use(app):
            with pytest.raises(StoreUnavailable, match="replaced by one without tables of this release"):
                use()
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["jobs.db"]

    def test_its_transactions_are_those_of_the_new_one(self, app: Stanchion, path: Path, tmp_path: Path) -> None:
        with closing(sqlite3.connect(path)) as old, old:
            app.queue("orders").push(2, tx=old)
            old.commit()
            with closing(Stanchion(f"sqlite:///{tmp_path / 'new.db'}")) as new:
                new.setup()
            move(path, tmp_path / "old.db")
            move(tmp_path / "new.db", path)
            with pytest.raises(CannotJoin):
                app.queue("orders").push(3, tx=old)
        with closing(sqlite3.connect(path)) as connection, connection:
            app.queue("orders").push(4, tx=connection)
        assert [job.payload for job in app.queue("orders").reserve(9)] == [4]

    def test_who_waits_hears_of_the_new_one(self, app: Stanchion, path: Path, tmp_path: Path) -> None:
        listener = app.store.listen(["orders"])
        try:
            while listener.wait(0.1):
                pass
            with closing(Stanchion(f"sqlite:///{tmp_path / 'new.db'}")) as new:
                new.setup()
            delete(path)
            move(tmp_path / "new.db", path)
            assert listener.wait(60)
            with closing(Stanchion(f"sqlite:///{path}")) as other:
                while listener.wait(0.1):
                    pass
                other.queue("orders").push(2)
                assert listener.wait(60)
        finally:
            listener.close()


def test_the_folder_of_the_process_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(Stanchion("sqlite:///jobs.db")) as app:
        app.queue("orders").push(1)
        monkeypatch.chdir(tmp_path / "elsewhere")
        app.close()
        app.queue("orders").push(2)
        assert app.queue("orders").size().total == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_log_of_writes_is_cut(app: Stanchion) -> None:
    assert isinstance(app.store, SqlStore)
    with app.store.database.connection() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_size_limit").scalar() == 32 * 1024 * 1024
