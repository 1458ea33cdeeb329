"""`app.testing(url=...)` uses the real store of a test database, which it empties, and no other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput
from stanchion.stores.registry import open_store

AT = datetime(2031, 5, 1, 8, tzinfo=UTC)


def an_app() -> Stanchion:
    """Return an app with declarations of each kind."""
    app = Stanchion("sqlite:///never-touched.db")
    app.queue("q", history_ttl=60, schema="id bigint")
    app.rate("api", "5/s")

    @app.cron("0 3 * * *")
    @app.task(name="nightly", queue="q")
    def nightly() -> None: ...

    @app.task(name="work", queue="work")
    def work(value: int) -> int:
        return value

    return app


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_each_block_begins_empty(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/test.db" if kind == "sqlite" else request.getfixturevalue("pg_url")
    for _ in range(2):
        app = an_app()
        with app.testing(AT, url=url) as clock:
            assert AT <= clock.now() < AT + timedelta(minutes=5)
            assert app.find() == []
            handle = app.enqueue("work", 1, queue="work")
            app.queue("q").push({"id": 1})
            assert app.drain() == 1
            assert handle.result(timeout=0) == 1
            clock.advance(20 * 3600, ticking=True)
            app.assert_enqueued("nightly", times=1)
    with closing(open_store(url)) as store:
        assert store.queues() == []
        assert store.values("schedule") == []
        assert store.values("schema") == []


def test_transactions_of_a_driver(tmp_path: Path) -> None:
    app = an_app()
    with (
        app.testing(url=f"sqlite:///{tmp_path}/test.db"),
        closing(sqlite3.connect(f"{tmp_path}/test.db")) as connection,
    ):
        connection.isolation_level = None
        for end, jobs in (("ROLLBACK", 0), ("COMMIT", 1)):
            connection.execute("BEGIN IMMEDIATE")
            app.using("work", tx=connection).enqueue(1)
            connection.execute(end)
            app.assert_enqueued("work", times=jobs)


@pytest.mark.parametrize("use", ["jobs", "history", "drained", "workers"])
def test_a_database_in_use_is_refused(use: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Stanchion(url)
    queue = app.queue("q", history_ttl=0) if use == "drained" else app.queue("q")
    if use == "workers":
        app.setup()
        with app.consumer("billing"):
            queue.reserve(1, holder="billing")
            refused(url)
        return
    queue.push(1)
    if use != "jobs":
        queue.reserve()[0].commit()
    refused(url)
    assert queue.counts().pushed == 1


def refused(url: str) -> None:
    """Check that a test refuses a store, and changes nothing in it."""
    with closing(open_store(url)) as store:
        before: Any = store.queues()
        with pytest.raises(InvalidInput, match="in use"), an_app().testing(url=url):
            pass
        assert store.queues() == before


def test_at_once_needs_the_store_in_memory(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInput, match="at_once"),
        an_app().testing(url=f"sqlite:///{tmp_path}/test.db", run="at_once"),
    ):
        pass
