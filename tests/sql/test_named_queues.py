"""The statements of a hot path name the queue, so that tables can be distributed by it; docs/scaling.md.

A table distributed over several servers sends a statement that names the queue to one of them, and any other to all.
Two looks are of all queues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.servers.mariadb import MariaDBServer

from stanchion import Push, Queue, Stanchion
from stanchion.stores.sql.engine.runner import CursorRunner

QUEUE = "the-queue"
_OF_JOBS = re.compile(r"\bstanchion_(jobs|history)\b")


def plain(queue: Queue) -> None:
    queue.push({"n": 1})
    queue.push_many(range(3))
    for job in queue.reserve(4):
        job.commit()


def popped(queue: Queue) -> None:
    queue.push_many(range(3))
    while queue.pop() is not None:
        pass


def in_a_batch(queue: Queue) -> None:
    queue.push_many(range(3))
    with queue.batch(3) as jobs:
        assert len(jobs) == 3


def with_keys(queue: Queue) -> None:
    queue.push_many([Push(n, key=f"k{n}") for n in range(3)])
    for job in queue.reserve(3):
        job.commit()


def in_lanes(queue: Queue) -> None:
    queue.configure(lanes=4)
    queue.push_many([Push(n, tenant=f"t{n}") for n in range(3)])
    for job in queue.reserve(3):
        job.commit()


def limited(queue: Queue) -> None:
    queue.configure(max_running=50)
    queue.push_many(range(3))
    for job in queue.reserve(3):
        job.commit()


def failing(queue: Queue) -> None:
    queue.push_many(range(3))
    for job in queue.reserve(3):
        job.extend(60)
        job.report_progress(0.5)
        job.rollback(delay=5)


WAYS: dict[str, Callable[[Queue], None]] = {
    way.__name__: way for way in (plain, popped, in_a_batch, with_keys, in_lanes, limited, failing)
}


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
    elif request.param == "postgres":
        yield request.getfixturevalue("pg_url")
    else:
        server: MariaDBServer = request.getfixturevalue("mariadb_server")
        yield server.create_database("named")
        server.drop_database("named")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.nightly_except("sqlite", "postgres")
def test_of_push_claim_and_outcome(url: str, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    with closing(Stanchion(url)) as app:
        app.setup()
        queue = app.queue(QUEUE)
        WAYS[way](queue)  # the process knows the queue and its shape then
        ran: list[tuple[str, Any]] = []
        execute = CursorRunner.execute

        def noted(self: CursorRunner, statement: Any, params: Any, cursor: Any = None) -> None:
            compiled = self._compiler.compiled(statement)
            ran.append((compiled.sql, {**self._given, **compiled.fixed, **(params or {})}))
            execute(self, statement, params, cursor)

        monkeypatch.setattr(CursorRunner, "execute", noted)
        WAYS[way](queue)
    of_jobs = [(sql, params) for sql, params in ran if _OF_JOBS.search(sql)]
    assert of_jobs
    unnamed = [sql for sql, params in of_jobs if QUEUE not in str(params)]
    assert [sql for sql in unnamed if not (of_expired_leases(sql) or of_known_ids(sql))] == []


def of_expired_leases(sql: str) -> bool:
    """Return whether a claim looks for leases that have run out, of all queues: an index of few jobs."""
    return "stanchion_jobs.lease_until <=" in sql and "ORDER BY stanchion_jobs.lease_until" in sql


def of_known_ids(sql: str) -> bool:
    """Return whether a push looks for jobs with its ids, which may have gone on to other queues."""
    return "WHERE stanchion_jobs.id IN" in sql and "UNION ALL" in sql and "token" not in sql
