"""Row locks on MariaDB: deadlocks, a row that stays locked, and how many rows a statement locks."""

from __future__ import annotations

import threading
import time
from typing import Any

import pymysql
import pytest
from tests.sql.mariadb.sessions import connect

from stanchion import Push, Stanchion
from stanchion.core.ids import new_ids
from stanchion.errors import StoreUnavailable
from stanchion.jobs.held_job import lease_of
from stanchion.stores.mariadb.cursors import StrictCursor
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRef, NewJob
from stanchion.stores.records.outcomes import Commit


def test_a_deadlock_is_tried_again(store: Store, app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    queue.push_many([Push(n, key=str(n)) for n in range(2)])
    first, second = queue.reserve(2)
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM stanchion_jobs WHERE id = %s FOR UPDATE", [max(first.id, second.id)])
        ended: list[Any] = []
        thread = threading.Thread(
            target=lambda: ended.append(store.settle([Commit(lease_of(first)), Commit(lease_of(second))]))
        )
        thread.start()
        time.sleep(0.5)  # it holds the lower id and waits for the higher
        with pytest.raises(pymysql.OperationalError) as dead:  # noqa: PT012
            cursor.execute("UPDATE stanchion_counter_events SET n = n")  # the heavier transaction survives
            cursor.execute("SELECT 1 FROM stanchion_jobs WHERE id = %s FOR UPDATE", [min(first.id, second.id)])
            raise pymysql.OperationalError(1213, "the store was the victim, and tries again")
        assert dead.value.args[0] == 1213
        connection.rollback()
        thread.join(60)
    assert ended == [["done", "done"]]


@pytest.mark.usefixtures("short_calls")
def test_a_row_that_stays_locked_ends_in_an_error(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    queue.push(1)
    (job,) = queue.reserve(lease=300)
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM stanchion_jobs WHERE id = %s FOR UPDATE", [job.id])
        with pytest.raises(StoreUnavailable, match="holds a lock"):  # the server by itself would wait for 50 s
            job.commit()
    job.commit()
    assert queue.size().total == 0


def test_a_deletion_reads_no_more_than_it_deletes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = new_ids(3000)
    store.push([NewJob(one, "orders", "1") for one in ids])
    read: list[int] = []
    execute = StrictCursor.execute

    def counted(self: StrictCursor, query: Any, args: Any = None) -> int:
        before = rows_read(self.connection)
        changed = execute(self, query, args)
        read.append(rows_read(self.connection) - before)
        return changed

    monkeypatch.setattr(StrictCursor, "execute", counted)
    assert store.delete([JobRef(one) for one in ids[:50]]) == [True] * 50
    assert 50 < sum(read) < 1000


def rows_read(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(count) for _, count in cursor.fetchall())
