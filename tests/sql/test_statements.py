"""The text of statements, as the driver receives it."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from tests.conftest import NewDatabase

from stanchion import Stanchion
from stanchion.core.ids import new_ids
from stanchion.stores.postgres.store import PostgresStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.query import Query
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import CursorRunner


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


def test_postgresql_claims_by_ids_and_pushes_to_run_by_one_statement(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.setup()
    store.push([NewJob(job, "q", "1") for job in new_ids(3)])
    ran: list[Any] = []
    execute = CursorRunner.execute

    def noted(self: CursorRunner, statement: Any, *given: Any) -> None:
        ran.append(statement)
        execute(self, statement, *given)

    queued = [row.id for row in store.select(Query("live", order="id")).rows]
    monkeypatch.setattr(CursorRunner, "execute", noted)
    rows = store.claim(Claim("q", 3, "t", ids=tuple((job, f"w{n}") for n, job in enumerate(queued)))).rows
    assert ([row.id for row in rows], len(ran)) == (queued, 1)
    jobs = [NewJob(job, "q", "1") for job in new_ids(3)]
    pushed = store.push(jobs, claim=Claim("q", 3, "u", ids=tuple((job.id, "w") for job in jobs)))
    assert ([one.token for one in pushed], len(ran)) == (["u"] * 3, 2)
