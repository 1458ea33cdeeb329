"""Claims by ids beside open transactions: they wait for no job, and reserve nothing past their bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

import pytest
from sqlalchemy import text
from tests.crash.scene import until
from tests.sql.test_contention import waiting_on_mariadb, waiting_on_postgresql

from stanchion.stores.records.jobs import SECOND, JobState, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import QUEUE, counts_of, new_job, row_of
from stanchion_conformance.limits.semaphores import SMTP, limited
from stanchion_conformance.manager.by_id import claim_ids, named

T = TypeVar("T")

pytestmark = pytest.mark.nightly_except("postgresql")


class Bench(NamedTuple):
    """Two clients of one database; `waiting`: how many transactions wait for a lock."""

    store: SqlStore
    other: SqlStore
    waiting: Callable[[], int]

    def behind(self, lock: str, call: Callable[[], T], then: Callable[[], bool], **given: Any) -> T:
        """Make a call that another transaction keeps waiting until `then` is true."""
        with ThreadPoolExecutor(1) as pool:
            with self.store.transaction() as tx:
                tx.execute(text(lock), given)
                done = pool.submit(call)
                until(lambda: done.done() or then(), 30, "the bound passes")
            return done.result()


@pytest.fixture(params=["postgresql", "mariadb"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "postgresql":
        url, server = request.getfixturevalue("pg_url"), request.getfixturevalue("postgres_server")
        waiting = lambda: waiting_on_postgresql(server.url())  # noqa: E731
    else:
        url, server = request.getfixturevalue("mariadb_url"), request.getfixturevalue("mariadb_server")
        waiting = lambda: waiting_on_mariadb(server)  # noqa: E731
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        assert isinstance(store, SqlStore)
        assert isinstance(other, SqlStore)
        store.setup()
        yield Bench(store, other, waiting)


def ids_of(jobs: Sequence[NewJob]) -> list[str]:
    return [job.id for job in jobs]


@pytest.mark.parametrize(
    ("settings", "fields"),
    [({}, {}), ({}, {"order_key": "k"}), ({"max_running": 9}, {"limits": '{"hold": ["smtp"]}'}), ({"lanes": 2}, {})],
    ids=str,
)
def test_a_locked_job_is_left_out(bench: Bench, settings: dict[str, Any], fields: dict[str, Any]) -> None:
    """A claim that waited for it would end without an answer, as this transaction ends after the claim."""
    store, other, _ = bench
    store.configure(QUEUE, settings)
    locked, free = new_job(**fields), new_job()
    store.push([locked, free])
    with store.transaction() as tx:
        tx.execute(_LOCK_JOB[other.database.dialect.names[0]], {"id": locked.id})
        assert claim_ids(other, locked, free) == [free.id]
    assert claim_ids(other, locked, free) == [locked.id]


_LOCK_JOB = {
    "postgresql": text("SELECT 1 FROM stanchion_jobs WHERE id = CAST(:id AS uuid) FOR UPDATE"),
    "mysql": text("SELECT 1 FROM stanchion_jobs WHERE id = :id FOR UPDATE"),
}

_QUEUE_ROW = "SELECT 1 FROM stanchion_queues WHERE name = :name FOR UPDATE"
_SLOT_ROW = "SELECT 1 FROM stanchion_slots WHERE kind = 'semaphore' AND queue = '' AND name = :name FOR UPDATE"


@pytest.mark.parametrize("kind", ["limited", "slots", "ordered"])
def test_nothing_is_reserved_after_a_long_wait(bench: Bench, kind: str) -> None:
    store, other, _ = bench
    store.set_semaphore(SMTP, 5)
    limits = {"limited": {"max_running": 5}, "ordered": {"ordered": True, "max_running": 1}, "slots": {}}
    store.configure(QUEUE, limits[kind])
    job = limited(SMTP) if kind == "slots" else new_job()
    store.push([job])
    bound = store.now() + SECOND
    lock, name = (_SLOT_ROW, SMTP) if kind == "slots" else (_QUEUE_ROW, QUEUE)
    wish = named(job, not_after=bound)
    found = bench.behind(lock, lambda: other.claim(wish).rows, lambda: store.now() > bound, name=name)
    assert found == []
    row = row_of(store, job.id)
    assert (row.state, row.attempts, row.slots_held) == ("queued", 0, 0)
    assert claim_ids(other, job) == [job.id]


def test_a_repeated_push_that_waits_for_the_end_of_its_job(bench: Bench) -> None:
    store, other, waiting = bench
    job, new = new_job(), new_job()
    store.push([job])
    (row,) = store.claim(named(job)).rows
    with ThreadPoolExecutor(1) as pool:
        with store.transaction() as tx:
            assert store.settle([Commit(row.lease)], tx=tx) == [JobState.DONE]
            pushed = pool.submit(lambda: other.push([job, new], repeat=True))
            until(lambda: pushed.done() or waiting() > 0, 30, "the push waits")
        assert [one.id for one in pushed.result()] == ids_of([job, new])
    assert (row_of(store, job.id).state, row_of(store, new.id).state) == ("done", "queued")
    assert claim_ids(store, job, new) == [new.id]
    assert counts_of(store, QUEUE).pushed == 2
