"""Among many writers to a SQLite file the one that has waited for long goes first."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.worker.conftest import until

from stanchion import Stanchion
from stanchion.stores.sqlite import dialect as sqlite
from stanchion.stores.sqlite.processes.writers import WriterQueue
from stanchion_conformance.harness import in_threads


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def app(path: Path) -> Iterator[Stanchion]:
    with closing(Stanchion(f"sqlite:///{path}")) as app:
        app.queue("orders").push("make the queue")
        yield app


@pytest.fixture
def other(path: Path) -> WriterQueue:
    """What another process sees."""
    return WriterQueue(str(path))


def test_one_at_a_time_asks_the_others_to_wait(path: Path, other: WriterQueue) -> None:
    queue, third = WriterQueue(str(path)), WriterQueue(str(path))
    assert not queue.goes_first()
    assert list(path.parent.iterdir()) == [], "looking makes no file"
    assert other.go_first()
    until(queue.goes_first)  # it looks for the file now and then
    assert not queue.go_first()
    assert not third.go_first()
    assert third.goes_first()
    other.leave()
    assert not third.goes_first()
    assert queue.go_first()


def test_the_lock_of_one_that_died_is_free(path: Path, other: WriterQueue) -> None:
    code = (
        "import sys, time\n"
        "from stanchion.stores.sqlite.processes.writers import WriterQueue\n"
        "print(WriterQueue(sys.argv[1]).go_first(), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert other.goes_first()
        process.kill()
    assert not other.goes_first()


def test_a_writer_lets_it_go_first(app: Stanchion, other: WriterQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "GIVE_WAY_SECONDS", 60.0)
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 60.0)
    looks: list[bool] = []
    goes_first = WriterQueue.goes_first

    def noted(self: WriterQueue) -> bool:
        looks.append(goes_first(self))
        return looks[-1]

    assert other.go_first()
    until(lambda: app.store.dialect._writers.goes_first())  # type: ignore[attr-defined]
    monkeypatch.setattr(WriterQueue, "goes_first", noted)
    with in_threads([lambda: app.queue("orders").push(1)]):
        until(lambda: len(looks) > 3)
        assert all(looks)
        assert app.queue("orders").size().total == 1, "the database is free, and it waits"
        other.leave()
    assert app.queue("orders").size().total == 2
    assert not looks[-1]


def test_one_that_has_waited_for_long_asks_for_it(
    app: Stanchion, path: Path, other: WriterQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LONG_SECONDS", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        with in_threads([lambda: app.queue("orders").push(1)]):
            until(other.goes_first)
            busy.execute("COMMIT")
    assert not other.goes_first()
    assert app.queue("orders").size().total == 2


def test_one_that_stands_still_holds_up_nobody_for_long(
    app: Stanchion, other: WriterQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "GIVE_WAY_SECONDS", 0.05)
    assert other.go_first()
    writers = app.store.dialect._writers  # type: ignore[attr-defined]
    until(writers.goes_first)
    app.queue("orders").push(1)
    assert not writers.goes_first(), "it is not waited for a second time"
    with app.transaction() as tx:
        app.queue("orders").push(2, tx=tx)
    assert app.queue("orders").size().total == 3
