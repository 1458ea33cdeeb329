"""What PostgreSQL plans while a table is small must not read all of it once it has grown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest
from tests.crash.scene import TIMEOUT_SECONDS, until

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store

pytestmark = pytest.mark.slow

OFTEN = 20
"""Runs of a statement after which the driver and the server keep its plan."""


class Reads(NamedTuple):
    """Rows of the table of jobs that the server has read: in scans of the whole table, and by an index."""

    scanned: int
    by_index: int


def reads_in(url: str) -> Reads:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'stanchion_jobs'"
        ).fetchone()
    assert found is not None
    return Reads(*found)


@pytest.fixture
def store(pg_url: str) -> Iterator[Store]:
    store = open_store(pg_url)
    store.setup()
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE stanchion_jobs SET (autovacuum_enabled = off)")
    yield store
    store.close()


def work(store: Store, times: int) -> None:
    """Reserve and commit jobs, one after the other."""
    for _ in range(times):
        (row,) = store.claim(Claim("q", 1, new_id(), "w")).rows
        assert store.settle([Commit(row.lease, None)]) == ["done"]


def push(store: Store, count: int) -> None:
    store.push([NewJob(job, "q", "{}") for job in new_ids(count)])


def test_of_claims_and_commits(store: Store, pg_url: str) -> None:
    for _ in range(OFTEN):
        push(store, 1)
        work(store, 1)
    before = reads_in(pg_url)
    push(store, 5000)
    work(store, OFTEN)
    store.close()  # the server counts what a connection has read at its end, if not before
    until(lambda: reads_in(pg_url).by_index >= before.by_index + OFTEN, TIMEOUT_SECONDS, "the reads to be counted")
    assert reads_in(pg_url).scanned < before.scanned + 5000
