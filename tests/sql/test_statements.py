"""The text of statements, as the driver receives it."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from tests.conftest import NewDatabase

from stanchion import Stanchion
from stanchion.stores.postgres.store import PostgresStore
from stanchion.stores.registry import open_store


@pytest.fixture
def store(new_pg_database: NewDatabase) -> Iterator[PostgresStore]:
    with closing(open_store(new_pg_database())) as store:
        assert isinstance(store, PostgresStore)
        yield store


def test_postgresql_numbers_the_parameters(store: PostgresStore) -> None:
    asked = text(
        "SELECT CAST(:one AS int), CAST(:two AS int) % 3, CAST(:one AS int), '50%', CAST('[1]' AS jsonb) ? 'a'"
    )
    assert store.database.read(lambda run: run.rows(asked, {"one": 1, "two": 5})) == [(1, 2, 1, "50%", False)]


def test_psycopg_does_not_translate_them(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Stanchion(store=store)
    app.setup()

    def translated(*_args: Any, **_options: Any) -> Any:
        raise AssertionError("a cursor that translates the names of parameters")

    monkeypatch.setattr(psycopg.Connection, "cursor", translated)
    queue = app.queue("jobs")
    queue.push_many([1, 2])
    (job,) = queue.reserve(1)
    job.commit()
    address = store.database.url.set(drivername="postgresql")
    with psycopg.connect(address.render_as_string(hide_password=False)) as caller:
        monkeypatch.undo()
        caller.execute("SELECT %s", ["the caller's own cursors still do"])
        queue.push(3, tx=caller)
    assert queue.size().total == 2
