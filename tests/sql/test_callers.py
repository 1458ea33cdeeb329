"""Every form of a caller's transaction joins: with each driver, and in asyncio by the async twins."""

from __future__ import annotations

import asyncio
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pymysql
import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from tests.sql.callers import ASYNC, ASYNC_FORMS, INSERT, SYNC, SYNC_FORMS, Async, Sync, address, forms_for, plain

from stanchion import JobState, Push, Stanchion, chain
from stanchion.errors import CannotJoin, LeaseLost


@pytest.fixture
def at(url: str) -> URL:
    """The URL of a store with a table of the caller."""
    at = make_url(url)
    engine = create_engine(at.set(drivername=SYNC[at.get_backend_name()]))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE effects (what TEXT)"))
    engine.dispose()
    return at


def effects(at: URL) -> int:
    engine = create_engine(at.set(drivername=SYNC[at.get_backend_name()]))
    with engine.connect() as connection:
        found = int(connection.execute(text("SELECT count(*) FROM effects")).scalar_one())
    engine.dispose()
    return found


def run(work: Any) -> None:
    """Run a coroutine with warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        asyncio.run(work)


def tasks(app: Stanchion) -> Any:
    @app.task(name="charge")
    def charge(order: int) -> int:
        return order

    return charge


@pytest.mark.parametrize(("url", "form"), forms_for(SYNC_FORMS), indirect=["url"])
def test_synchronous_forms_join(app: Stanchion, at: URL, form: Sync) -> None:
    queue, charge = app.queue("orders"), tasks(app)
    queue.push("held")
    (held,) = queue.reserve()
    with form(at) as (tx, execute, commit, rollback):
        for end in (rollback, commit):
            execute(INSERT)
            queue.push(1, key="k", tx=tx)
            queue.push_many([Push(n, priority=n) for n in range(3)], tx=tx)
            charge.using(tx=tx).enqueue(17)
            held.commit("done", tx=tx)
            end()
            if end is rollback:
                assert (queue.size().total, app.queue("default").size().total, effects(at)) == (1, 0, 0)
                assert queue.get(held.id).state is JobState.RUNNING  # type: ignore[union-attr]
    assert effects(at) == 1
    assert queue.get(held.id).result == "done"  # type: ignore[union-attr]
    assert sorted(job.payload for job in queue.reserve(10)) == [0, 1, 1, 2]
    assert app.drain() == 1


@pytest.mark.parametrize(("url", "form"), forms_for(ASYNC_FORMS), indirect=["url"])
def test_asynchronous_forms_join_by_the_twins_of_all_verbs(app: Stanchion, at: URL, form: Async) -> None:
    queue, charge = app.queue("orders"), tasks(app)
    topic = app.topic("sales")
    topic.subscribe("audit")
    queue.push_many(["held", "moved"])
    held, moved = queue.reserve(2)

    async def work() -> None:
        async with form(at) as (tx, execute, _, rollback):
            await all_verbs(tx, execute)
            await rollback()
        assert (await queue.asize()).running == 2
        assert [(await app.queue(name).asize()).total for name in ("orders", "default", "next")] == [2, 0, 0]
        assert effects(at) == 0
        async with form(at) as (tx, execute, commit, _):
            await all_verbs(tx, execute)
            await commit()

    async def all_verbs(tx: Any, execute: Any) -> None:
        await execute(INSERT)
        await queue.apush(1, key="k", tx=tx)
        await queue.apush_many([Push(n, priority=n) for n in range(3)], tx=tx)
        assert (await queue.apush(2, key="k", tx=tx)).duplicate
        await charge.using(tx=tx).aenqueue(17)
        await charge.using(tx=tx).aenqueue_many([(18,), (19,)])
        await chain(charge.s(20), charge.s()).aenqueue(tx)
        await topic.apush({"id": 1}, tx=tx)
        await held.acommit({"a": 1}, tx=tx)
        await moved.amove("next", payload=2, tx=tx)

    run(work())
    assert effects(at) == 1
    assert queue.get(held.id).result == {"a": 1}  # type: ignore[union-attr]
    assert (queue.size().ready, app.queue("next").size().ready) == (4, 1)
    assert app.drain(["default"]) == 5


@pytest.mark.parametrize(("url", "form"), forms_for(ASYNC_FORMS), indirect=["url"])
def test_a_lost_lease_is_refused_and_a_synchronous_verb_names_the_twin(app: Stanchion, at: URL, form: Async) -> None:
    queue = app.queue("orders")
    queue.push(1)
    (late,) = queue.reserve(lease=5)
    app.store.clock_offset += 6
    (again,) = queue.reserve()

    async def work() -> None:
        async with form(at) as (tx, _, _, rollback):
            with pytest.raises(CannotJoin, match="await the async twin"):
                queue.push(1, tx=tx)
            with pytest.raises(LeaseLost):
                await late.acommit(tx=tx)
            await rollback()

    run(work())
    again.commit()
    assert queue.size().total == 0


LISTENING = [one for one in forms_for(ASYNC_FORMS) if one.values[0] != "mariadb"]


@pytest.mark.slow
@pytest.mark.parametrize(("url", "form"), LISTENING, indirect=["url"])
def test_the_wake_up_goes_out_on_commit_only(app: Stanchion, at: URL, form: Async) -> None:
    queue = app.queue("orders")
    queue.push("make the queue")
    queue.pop()
    listener = app.store.listen(["orders"])

    async def work() -> None:
        while await asyncio.to_thread(listener.wait, 0.5):
            pass  # the sign that it listens, and that of the first push
        async with form(at) as (tx, _, _, rollback):
            await queue.apush(1, tx=tx)
            await rollback()
        assert not await asyncio.to_thread(listener.wait, 0.2)
        async with form(at) as (tx, _, commit, _):
            await queue.apush(1, tx=tx)
            assert not await asyncio.to_thread(listener.wait, 0.2)
            await commit()
            assert await asyncio.to_thread(listener.wait, 60)

    try:
        run(work())
    finally:
        listener.close()


BY_ITSELF = {
    "sqlite sqlite3": lambda at: sqlite3.connect(at.database, isolation_level=None),
    "postgresql psycopg": lambda at: psycopg.connect(plain(at), autocommit=True),
    "mysql pymysql": lambda at: pymysql.connect(**address(at), autocommit=True),
    "mysql mysqlclient": lambda at: pytest.importorskip("MySQLdb").connect(**address(at), autocommit=True),
}


@pytest.mark.parametrize(("url", "connect"), forms_for(BY_ITSELF), indirect=["url"])
def test_connections_that_commit_each_statement_are_refused_until_they_begin(
    app: Stanchion, at: URL, connect: Callable[[URL], Any]
) -> None:
    queue = app.queue("orders")
    queue.push("make the queue")
    with closing(connect(at)) as connection:
        with pytest.raises(CannotJoin, match="commits every statement by itself"):
            queue.push(1, tx=connection)
        connection.cursor().execute("BEGIN")
        queue.push(1, tx=connection)
        connection.cursor().execute("ROLLBACK")
        connection.cursor().execute("BEGIN")
        queue.push(2, tx=connection)
        connection.cursor().execute("COMMIT")
    engine = create_engine(at.set(drivername=SYNC[at.get_backend_name()]), isolation_level="AUTOCOMMIT")
    with engine.connect() as alchemy, pytest.raises(CannotJoin, match="commits every statement by itself"):
        queue.push(3, tx=alchemy)
    engine.dispose()
    assert [job.payload for job in queue.reserve(5)] == ["make the queue", 2]


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_asynchronous_connections_that_commit_each_statement_are_refused(app: Stanchion, at: URL) -> None:
    queue = app.queue("orders")
    queue.push("make the queue")

    async def work() -> None:
        if at.get_backend_name() == "sqlite":
            connections: list[Any] = [await aiosqlite.connect(at.database or "", isolation_level=None)]
        else:
            other = await psycopg.AsyncConnection.connect(plain(at), autocommit=True)
            connections = [await asyncpg.connect(plain(at)), other]
        for connection in connections:
            with pytest.raises(CannotJoin, match="commits every statement by itself"):
                await queue.apush(1, tx=connection)
            await connection.close()
        engine = create_async_engine(at.set(drivername=ASYNC[at.get_backend_name()]), isolation_level="AUTOCOMMIT")
        async with engine.connect() as alchemy:
            with pytest.raises(CannotJoin, match="commits every statement by itself"):
                await queue.apush(1, tx=alchemy)
        await engine.dispose()

    run(work())
    assert queue.size().total == 1


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)  # SQLAlchemy leaves aiosqlite's lock behind
def test_a_call_whose_task_is_cancelled_writes_no_more(app: Stanchion, at: URL) -> None:
    """A push of several statements, cancelled at each of them: what is committed behind it has none of its jobs."""
    queue = app.queue("orders")
    queue.push("make the queue")

    async def work(steps: int) -> None:
        async with ASYNC_FORMS["any session"](at) as (session, execute, commit, rollback):
            await execute(INSERT)
            engine = (await session.connection()).sync_connection.engine
            pushing = asyncio.create_task(queue.apush_many([Push(n, key=str(n)) for n in range(20)], tx=session))
            ran = []

            def counted(*_statement: Any) -> None:
                ran.append(1)
                if len(ran) == steps:
                    pushing.cancel()

            event.listen(engine, "before_cursor_execute", counted)
            with suppress(asyncio.CancelledError):
                await pushing
            assert pushing.cancelled() or len(ran) < steps
            event.remove(engine, "before_cursor_execute", counted)
            await rollback()
            await execute(INSERT)
            await asyncio.sleep(0.05)
            await commit()

    for steps in (1, 2, 3):
        run(work(steps))
    assert queue.size().total == 1
    assert effects(at) == 3


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_savepoint_neither_wakes_nor_keeps_from_waking(app: Stanchion, at: URL) -> None:
    queue = app.queue("orders")
    queue.push("make the queue")
    queue.pop()
    listener = app.store.listen(["orders"])
    while listener.wait(0.5):
        pass
    engine = create_engine(at.set(drivername="postgresql+psycopg"))
    with closing(listener), Session(engine) as session:
        with session.begin_nested():
            queue.push(1, tx=session)
        assert not listener.wait(0.2), "the savepoint was released, and nothing committed"
        with suppress(RuntimeError), session.begin_nested():
            raise RuntimeError
        session.commit()
        assert listener.wait(60)
    engine.dispose()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
def test_a_session_wakes_this_process_where_only_polling_wakes_others(app: Stanchion, at: URL) -> None:
    queue = app.queue("orders")
    queue.push("make the queue")
    listener = app.store.listen(["orders"])
    engine = create_engine(at.set(drivername="mysql+pymysql"))
    with closing(listener), Session(engine) as session:
        queue.push(1, tx=session)
        session.rollback()
        queue.push(2, tx=session)
        assert not listener.wait(0.1)
        session.commit()
        assert listener.wait(60)
    engine.dispose()
