"""Jobs that live and die with the caller's transaction."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable, create_engine, text
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from stanchion import Push, Stanchion
from stanchion.errors import CannotJoin, DuplicateKey, LeaseLost
from stanchion.stores.postgres.connections.wakeup import NOTIFY
from stanchion.stores.sql.engine.runner import CursorRunner

Begin = Callable[[], AbstractContextManager[tuple[Any, Callable[[str], Any], Callable[[], None], Callable[[], None]]]]
"""Opens a transaction: what to pass as tx, how to run SQL in it, commit, roll back."""


DRIVERS = {
    "sqlite": ("sqlite", "sqlite+aiosqlite"),
    "postgresql": ("postgresql+psycopg", "postgresql+asyncpg"),
    "mysql": ("mysql+pymysql", "mysql+asyncmy"),
}
"""The synchronous and the asynchronous driver of each database."""


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(make_url(url).set(drivername=DRIVERS[url.partition(":")[0]][0]))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE effects (what TEXT)"))
    yield engine
    engine.dispose()


@pytest.fixture(params=["session", "connection", "driver"])
def begin(request: pytest.FixtureRequest, engine: Engine) -> Begin:
    @contextmanager
    def session() -> Iterator[Any]:
        with Session(engine) as session:
            yield session, lambda sql: session.execute(text(sql)), session.commit, session.rollback

    @contextmanager
    def connection() -> Iterator[Any]:
        with engine.connect() as connection:
            yield connection, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback

    @contextmanager
    def driver() -> Iterator[Any]:
        with closing(engine.raw_connection()) as pooled:
            raw: Any = pooled.driver_connection
            yield raw, lambda sql: raw.cursor().execute(sql), raw.commit, raw.rollback

    return {"session": session, "connection": connection, "driver": driver}[request.param]


def effects(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT what FROM effects")).scalars())


@pytest.mark.one_in_each("begin", "url")
def test_a_rollback_leaves_nothing(app: Stanchion, engine: Engine, begin: Begin) -> None:
    queue = app.queue("orders")
    with begin() as (tx, run, _, rollback):
        run("INSERT INTO effects VALUES ('order')")
        job = queue.push({"id": 1}, tx=tx)
        queue.push_many([Push(n, priority=n) for n in range(3)], tx=tx)
        rollback()
    assert effects(engine) == []
    assert queue.size().total == 0
    assert queue.counts().pushed == 0
    assert queue.get(job.id) is None


@pytest.mark.one_in_each("begin", "url")
def test_a_commit_shows_both(app: Stanchion, engine: Engine, begin: Begin) -> None:
    queue = app.queue("orders")
    with begin() as (tx, run, commit, _):
        run("INSERT INTO effects VALUES ('order')")
        queue.push_many([Push(n) for n in range(3)], tx=tx)
        if not str(engine.url).startswith("sqlite"):  # there a reader outside would see its own snapshot too
            assert queue.size().total == 0
        commit()
    assert effects(engine) == ["order"]
    assert [job.payload for job in queue.reserve(10)] == [0, 1, 2]


@pytest.mark.one_in_each("begin", "url")
def test_effect_and_commit_of_the_job_are_one(app: Stanchion, engine: Engine, begin: Begin) -> None:
    queue = app.queue("orders")
    queue.push(1)
    (job,) = queue.reserve()
    with begin() as (tx, run, _, rollback):
        run("INSERT INTO effects VALUES ('lost')")
        job.commit("lost", tx=tx)
        rollback()
    assert queue.size().running == 1
    with begin() as (tx, run, commit, _):
        run("INSERT INTO effects VALUES ('kept')")
        job.commit("kept", tx=tx)
        commit()
    assert effects(engine) == ["kept"]
    assert queue.size().total == 0
    done = queue.get(job.id)
    assert done is not None
    assert done.result == "kept"


@pytest.mark.one_in_each("begin", "url")
def test_move_joins(app: Stanchion, begin: Begin) -> None:
    queue, following = app.queue("raw"), app.queue("clean")
    queue.push(1)
    (job,) = queue.reserve()
    with begin() as (tx, _, commit, _):
        job.move("clean", payload=2, tx=tx)
        commit()
    assert queue.size().total == 0
    (moved,) = following.reserve()
    assert (moved.id, moved.payload, moved.attempt) == (job.id, 2, 1)


@pytest.mark.one_in_each("begin", "url")
def test_a_lost_lease_is_refused_in_the_transaction_too(app: Stanchion, begin: Begin) -> None:
    queue = app.queue("orders")
    queue.push(1)
    (late,) = queue.reserve(lease=5)
    app.store.clock_offset += 6
    (again,) = queue.reserve()
    with begin() as (tx, _, _, rollback):
        with pytest.raises(LeaseLost):
            late.commit(tx=tx)
        rollback()
    again.commit()


@pytest.mark.one_in_each("begin", "url")
def test_keys_hold_in_a_transaction(app: Stanchion, begin: Begin) -> None:
    queue = app.queue("orders")
    first = queue.push(1, key="a")
    with begin() as (tx, _, commit, _):
        second = queue.push(2, key="a", tx=tx)
        with pytest.raises(DuplicateKey):
            queue.push(2, key="a", on_duplicate="raise", tx=tx)
        queue.push(3, key="b", tx=tx)
        commit()
    assert second.duplicate
    assert second.id == first.id
    assert queue.size().total == 2


@pytest.mark.one_in_each("begin", "url")
def test_tasks_enqueue_in_a_transaction(app: Stanchion, begin: Begin) -> None:
    @app.task(name="greet")
    def greet(name: str) -> str:
        return f"hello {name}"

    with begin() as (tx, _, _, rollback):
        greet.using(tx=tx).enqueue("nobody")
        rollback()
    with begin() as (tx, _, commit, _):
        handle = greet.using(tx=tx).enqueue("you")
        commit()
    assert app.drain() == 1
    assert handle.result(timeout=1) == "hello you"


def test_the_stores_own_transaction(app: Stanchion) -> None:
    queue = app.queue("orders")
    with contextlib.suppress(RuntimeError), app.transaction() as tx:
        queue.push(1, tx=tx)
        raise RuntimeError("stop")
    assert queue.size().total == 0
    with app.transaction() as tx:
        queue.push(1, tx=tx)
    assert queue.size().total == 1


def test_async_sessions(app: Stanchion, url: str) -> None:
    driver = DRIVERS[url.partition(":")[0]][1]
    queue = app.queue("orders")

    async def work() -> None:
        engine = create_async_engine(make_url(url).set(drivername=driver, query={}))
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda s: queue.push("lost", tx=s))
            await session.rollback()
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda s: queue.push("kept", key="k", priority=3, tx=s))
            await session.commit()
        (job,) = await queue.areserve()
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda s: job.commit({"a": 1}, tx=s))
            await session.commit()
        await engine.dispose()

    asyncio.run(work())
    (done,) = queue.history()
    assert (done.payload, done.result, done.priority) == ("kept", {"a": 1}, 3)


@pytest.mark.parametrize("wrong", [object(), "a string", 1], ids=["object", "text", "number"])
def test_what_is_no_transaction_is_refused(app: Stanchion, wrong: Any) -> None:
    with pytest.raises(CannotJoin, match="pass a SQLAlchemy Session"):
        app.queue("orders").push(1, tx=wrong)
    assert app.queue("orders").size().total == 0


def test_a_transaction_of_another_kind_of_database_is_refused(pg_app: Stanchion) -> None:
    elsewhere = create_engine("sqlite://")
    with elsewhere.connect() as connection, pytest.raises(CannotJoin, match="both must be in one database"):
        pg_app.queue("orders").push(1, tx=connection)
    with closing(sqlite3.connect(":memory:")) as raw, pytest.raises(CannotJoin):
        pg_app.queue("orders").push(1, tx=raw)


@pytest.mark.one_in_each("begin", "url")
@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)  # on MariaDB there is none
def test_the_wake_up_goes_out_on_commit_only(app: Stanchion, begin: Begin) -> None:
    queue = app.queue("orders")
    queue.push("make the queue")
    queue.pop()
    listener = app.store.listen(["orders"])
    try:
        while listener.wait(1):  # the sign that it listens, and that of the first push
            pass
        with begin() as (tx, _, _, rollback):
            queue.push(1, tx=tx)
            rollback()
        assert not listener.wait(0.3)
        with begin() as (tx, _, commit, _):
            queue.push(1, tx=tx)
            assert not listener.wait(0.3)
            commit()
            assert listener.wait(60)
    finally:
        listener.close()


def test_a_session_that_is_used_again_signals_again(
    pg_app: Stanchion, pg_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_engine(pg_store_url.replace("postgresql://", "postgresql+psycopg://"))
    queue = pg_app.queue("orders")
    queue.push("make the queue")
    listener = pg_app.store.listen(["orders"])
    while listener.wait(1):
        pass
    ran: list[Executable] = []
    execute = CursorRunner.execute

    def noted(self: CursorRunner, statement: Executable, params: Any) -> None:
        ran.append(statement)
        execute(self, statement, params)

    monkeypatch.setattr(CursorRunner, "execute", noted)
    with Session(engine) as session:
        for _ in range(3):
            queue.push(1, tx=session)
            session.commit()
            assert listener.wait(60)
    assert ran
    assert NOTIFY not in ran, "the signal must not ride on the caller's transaction"
    listener.close()
    engine.dispose()


def test_a_forgotten_tx_is_told_and_does_not_hang(tmp_path: Path) -> None:
    app = Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}")
    queue = app.queue("orders")
    queue.push(1)
    with app.transaction(), pytest.raises(CannotJoin, match="pass the transaction as tx="):
        queue.push(2)
    assert queue.size().total == 1


def test_a_connection_without_a_transaction_gets_one(app: Stanchion, engine: Engine) -> None:
    queue = app.queue("orders")
    with engine.connect() as connection:
        queue.push("lost", tx=connection)
        connection.rollback()
        queue.push("kept", tx=connection)
        connection.commit()
    assert [job.payload for job in queue.reserve(5)] == ["kept"]
