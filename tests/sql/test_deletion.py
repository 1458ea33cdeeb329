"""A deletion whose answer is lost is done once, and told of."""

from __future__ import annotations

from typing import Any

import psycopg
import pymysql
import pytest

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRef, NewJob
from stanchion.stores.records.outcomes import Bury, Commit
from stanchion.stores.registry import open_store
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import find_jobs, row_of


@pytest.mark.parametrize("database", ["pg_url", "mariadb_url"])
def test_an_answer_that_is_lost(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    store = open_store(request.getfixturevalue(database))
    assert isinstance(store, SqlStore)
    store.setup()
    store.push([NewJob(one, "q", "1") for one in new_ids(5)])
    done, dead, running = store.claim(Claim("q", 3, "token", "w")).rows
    store.settle([Commit(done.lease), Bury(dead.lease, "no")])
    was = row_of(store, dead.id).ref
    store.retry([dead.id])
    queued = [row for row in find_jobs(store) if row.state == "queued" and row.id != dead.id]
    refs = [row_of(store, done.id).ref, was, running.ref, JobRef(new_id()), *(row.ref for row in queued)]
    lost = psycopg.OperationalError("lost") if database == "pg_url" else pymysql.OperationalError(2013, "lost")
    attempt, losses = store.database._attempt, iter([lost])

    def and_lost(work: Any, again: bool, transaction: bool, *rest: Any, **options: Any) -> Any:
        answer = attempt(work, again, transaction, *rest, **options)
        if transaction and (error := next(losses, None)) is not None:
            raise error
        return answer

    monkeypatch.setattr(store.database, "_attempt", and_lost)
    answers = store.delete(refs)
    assert next(losses, None) is None
    assert answers == [True, False, False, True, True, True], "one that was never there may have been there"
    assert {row.id for row in find_jobs(store)} == {dead.id, running.id}
    assert store.delete(refs) == [False] * 6
    store.close()
