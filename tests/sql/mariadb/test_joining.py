"""Calls join the caller's transaction on MariaDB."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from pymysql.cursors import DictCursor
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session
from tests.sql.mariadb.sessions import connect

from stanchion import Push, Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import CannotJoin
from stanchion.stores.records.jobs import NewJob


def test_an_old_snapshot_hides_nothing_that_matters(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    queue.push("make the queue", key="other")
    queue.pop()
    app.queue("zoo").push("after the jobs of orders, in the index of keys")
    with connect(mariadb_url) as connection, connection.cursor() as cursor:  # REPEATABLE READ, as by default
        cursor.execute("SELECT COUNT(*) FROM stanchion_jobs")
        assert cursor.fetchone() == (1,)
        first = queue.push(1, key="k")
        again = queue.push(2, key="k", tx=connection)
        assert (again.id, again.duplicate) == (first.id, True)
        renewed = queue.push(3, key="k", on_duplicate="replace", priority=7, tx=connection)
        assert renewed.id == first.id
        late = NewJob(new_id(), "orders", "5")
        app.store.push([late])
        assert [pushed.id for pushed in app.store.push([late], tx=connection)] == [late.id]
        connection.commit()
    (job,) = queue.reserve(1)
    assert (job.payload, job.priority) == (3, 7)
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM stanchion_jobs")
        (newer,) = queue.reserve(1)
        newer.commit("done", tx=connection)
        job.move("next", tx=connection)
        connection.commit()
    assert queue.size().total == 0
    assert app.queue("next").size().ready == 1


@pytest.mark.parametrize(
    "options", [{}, {"client_flag": 2}, {"cursorclass": DictCursor}], ids=["plain", "found rows", "dicts"]
)
def test_any_connection_of_the_driver_joins(app: Stanchion, mariadb_url: str, options: dict[str, Any]) -> None:
    queue = app.queue("orders")
    holder = queue.push(0, key="a")
    with connect(mariadb_url, **options) as connection:
        pushed = queue.push_many(
            [Push(n, key=key) for n, key in enumerate("abcb")] + [Push(9), Push(10)], tx=connection
        )
        assert [job.duplicate for job in pushed] == [True, False, False, True, False, False]
        assert pushed[0].id == holder.id
        connection.commit()
    assert queue.size().total == 5
    assert queue.counts().pushed == 5


def test_a_connection_that_commits_by_itself_is_refused(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    with connect(mariadb_url, autocommit=True) as connection:
        with pytest.raises(CannotJoin, match="begin a transaction on it first"):
            queue.push(1, tx=connection)
        connection.begin()
        queue.push(2, tx=connection)
        connection.rollback()
        connection.begin()
        queue.push(3, tx=connection)
        connection.commit()
    assert [job.payload for job in queue.reserve(5)] == [3]


def test_a_closed_connection_is_refused(app: Stanchion, mariadb_url: str) -> None:
    connection = connect(mariadb_url)
    connection.close()
    with pytest.raises(CannotJoin, match="an open connection of PyMySQL"):
        app.queue("orders").push(1, tx=connection)


def test_the_other_dialect_joins_through_sqlalchemy(app: Stanchion, mariadb_url: str) -> None:
    queue = app.queue("orders")
    engine = create_engine(make_url(mariadb_url).set(drivername="mariadb+pymysql"))
    with Session(engine) as session:
        queue.push("lost", tx=session)
        session.rollback()
        queue.push_many([Push(n, key=str(n % 3)) for n in range(6)], tx=session)
        session.commit()
    assert queue.counts().pushed == 3
    jobs = queue.reserve(3)
    assert [job.payload for job in jobs] == [0, 1, 2]
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        jobs[0].commit({"a": "ü🚧"}, tx=session)
        jobs[1].commit(tx=session)
        jobs[2].move("next", tx=session)
        session.commit()
    engine.dispose()
    assert [job.result for job in queue.history()] == [None, {"a": "ü🚧"}]
    assert app.queue("next").size().ready == 1


def test_a_raw_connection_of_another_driver_is_refused(app: Stanchion) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as raw,
        pytest.raises(CannotJoin, match=r"not sqlite3\.Connection: pass a SQLAlchemy Session"),
    ):
        app.queue("orders").push(1, tx=raw)
