"""PostgreSQL's claim from a queue with `max_running`: it counts the running jobs under the lock of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest
from tests.crash.scene import until

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, limits_text

LOCK = "SELECT 1 FROM stanchion_queues WHERE name = 'q' FOR UPDATE"
BEGIN = "UPDATE stanchion_jobs SET state = 'running', started_at = 1, lease_until = {} WHERE id = %s"


@pytest.fixture
def store(pg_store_url: str) -> Iterator[Store]:
    """A store whose next claim from a queue with two jobs, one of which may run, is made as from a capped one."""
    with closing(open_store(pg_store_url)) as store:
        store.configure("q", {"max_running": 1})
        assert not claimed(store), "the claim has met the limit"
        yield store


def push(store: Store, count: int = 2) -> list[str]:
    ids = new_ids(count)
    store.push([NewJob(one, "q", "1") for one in ids])
    return ids


def claimed(store: Store, *, rows: bool = True) -> list[JobRow] | int:
    """Return what a claim of two jobs finds."""
    found = store.claim(Claim("q", 2, new_id(), worker="w", rows=rows))
    return found.rows if rows else found.reserved


def ids_of(rows: list[JobRow] | int) -> list[str]:
    assert isinstance(rows, list)
    return [row.id for row in rows]


@contextmanager
def another(url: str) -> Iterator[psycopg.Connection]:
    """Hold the lock of the queue, as another claim does."""
    with psycopg.connect(url) as connection:
        connection.execute(LOCK)
        yield connection


def waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return bool(row and row[0])


@pytest.mark.parametrize("rows", [True, False])
def test_a_claim_counts_what_the_one_before_it_has_begun(store: Store, pg_store_url: str, rows: bool) -> None:
    first, _ = push(store)
    with another(pg_store_url) as connection, ThreadPoolExecutor(1) as thread:
        connection.execute(BEGIN.format("NULL"), [first])
        found = thread.submit(claimed, store, rows=rows)
        until(lambda: waits(pg_store_url), 60, "the claim waits for the queue")
        connection.commit()
        assert not found.result(60)
    assert not claimed(store, rows=rows)


@pytest.mark.parametrize("rows", [True, False])
def test_a_claim_takes_no_more_than_may_run(store: Store, rows: bool) -> None:
    first, _ = push(store)
    if rows:
        assert ids_of(claimed(store)) == [first]
    else:
        assert claimed(store, rows=False) == 1
    assert not claimed(store, rows=rows)


def test_a_claim_follows_settings_that_changed_while_it_waited(store: Store, pg_store_url: str) -> None:
    push(store)
    with another(pg_store_url) as connection, ThreadPoolExecutor(1) as thread:
        connection.execute("UPDATE stanchion_queues SET paused = true WHERE name = 'q'")
        found = thread.submit(claimed, store)
        until(lambda: waits(pg_store_url), 60, "the claim waits for the queue")
        connection.commit()
        assert not found.result(60)
    store.configure("q", {"paused": False, "max_running": 2})
    assert len(ids_of(claimed(store))) == 2


def test_a_claim_is_no_longer_limited(store: Store) -> None:
    ids = push(store)
    store.configure("q", {"max_running": None})
    assert ids_of(claimed(store)) == ids


def test_expired_leases_are_freed_first(store: Store, pg_store_url: str) -> None:
    first, second = push(store)
    with psycopg.connect(pg_store_url) as connection:
        connection.execute(BEGIN.format("1"), [first])
    assert ids_of(claimed(store)) == [first]
    assert second not in ids_of(claimed(store))


def test_jobs_that_need_slots_wait_for_them(store: Store) -> None:
    store.set_semaphore("slot", 0)
    store.push([NewJob(new_id(), "q", "1", limits=limits_text(Limits(("slot",))))])
    (free,) = push(store, 1)
    assert ids_of(claimed(store)) == [free]


def test_running_jobs_above_a_new_maximum_stay(store: Store) -> None:
    store.configure("q", {"max_running": 2})
    push(store, 3)
    assert len(ids_of(claimed(store))) == 2
    store.configure("q", {"max_running": 1})
    assert not claimed(store)
