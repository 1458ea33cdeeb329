"""The connections that PostgreSQL's rows come by as Arrow."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, cast

import psycopg
import pytest

from stanchion.core.ids import new_ids
from stanchion.stores.postgres.store import PostgresStore
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.query import Query
from stanchion.stores.registry import open_store

JOBS = 3
ALL = Query("live", order="id", columns=("id",))


@pytest.fixture
def store(pg_store_url: str) -> Iterator[PostgresStore]:
    with closing(open_store(pg_store_url)) as store:
        assert isinstance(store, PostgresStore)
        store.push([NewJob(one, "q", "1") for one in new_ids(JOBS)])
        yield store


def read(store: PostgresStore) -> int:
    return sum(batch.num_rows for batch in store.select_arrow(ALL))


@pytest.fixture
def reads(pg_store_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(pg_store_url, autocommit=True) as connection:
        yield connection


def open_reads(connection: psycopg.Connection) -> list[tuple[int, str]]:
    """Return the connections whose last statement read Arrow, and their states."""
    found: list[tuple[int, str]] = connection.execute(
        "SELECT pid, state FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY (%'"
    ).fetchall()
    return found


def test_one_serves_all_reads_and_has_no_transaction_open(store: PostgresStore, reads: psycopg.Connection) -> None:
    found = []
    for _ in range(3):
        assert read(store) == JOBS
        found += open_reads(reads)
    assert len(found) == 3
    assert {state for _, state in found} == {"idle"}
    assert len({pid for pid, _ in found}) == 1
    store.close()
    assert read(store) == JOBS


def test_reads_at_the_same_time_have_one_each(store: PostgresStore) -> None:
    one, other = store.select_arrow(ALL), store.select_arrow(ALL)
    assert [next(one).num_rows, next(other).num_rows] == [JOBS, JOBS]
    assert [*one, *other] == []
    assert read(store) == JOBS


def test_one_that_is_left_in_the_middle_is_closed(store: PostgresStore, reads: psycopg.Connection) -> None:
    assert read(store) == JOBS
    left = cast("Generator[Any]", store.select_arrow(ALL))
    next(left)
    left.close()
    assert read(store) == JOBS
    assert len(open_reads(reads)) == 1


def test_another_is_opened_if_the_server_has_closed_it(store: PostgresStore, reads: psycopg.Connection) -> None:
    assert read(store) == JOBS
    ((pid, _),) = open_reads(reads)
    reads.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])
    assert read(store) == JOBS


def test_it_is_closed_before_a_fork_and_so_not_shared(store: PostgresStore, reads: psycopg.Connection) -> None:
    assert read(store) == JOBS
    ((shared, _),) = open_reads(reads)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    deadline = time.monotonic() + 60
    while shared in [pid for pid, _ in open_reads(reads)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert read(store) == JOBS


def test_a_forked_child_reads_by_its_own(store: PostgresStore) -> None:
    assert read(store) == JOBS
    child = os.fork()
    if child == 0:
        try:
            assert read(store) == JOBS
            store.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read(store) == JOBS
