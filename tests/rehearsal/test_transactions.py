"""`app.testing()` takes `tx=`: a job appears with the commit of the caller's transaction, and a rollback forgets it."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Engine, StaticPool, create_engine, event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from stanchion import JobState, Stanchion, chain
from stanchion.errors import CannotJoin, DuplicateKey, LeaseLost

app = Stanchion("postgresql://app@db/shop")


@app.task(name="charge", queue="money")
def charge(order: int) -> int:
    return order


@pytest.fixture(autouse=True)
def store() -> Iterator[None]:
    with app.testing():
        yield


@pytest.fixture
def engine() -> Iterator[Engine]:
    """A SQLite database in memory, with the transactions of SQLAlchemy's recipe for savepoints."""
    engine = create_engine("sqlite://", poolclass=StaticPool)

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id integer PRIMARY KEY)"))
    yield engine
    engine.dispose()


def pushed() -> list[int]:
    """Return the orders of the jobs that can be seen."""
    return sorted(job.payload["args"][0] for job in app.queue("money").find())


class TestSession:
    def test_a_job_appears_with_the_commit(self, engine: Engine) -> None:
        with Session(engine) as session:
            handle = charge.using(tx=session).enqueue(1)
            assert pushed() == []
            assert app.drain() == 0
            session.commit()
            assert pushed() == [1]
            charge.using(tx=session).enqueue(2)
            assert pushed() == [1]
            session.commit()
        assert pushed() == [1, 2]
        app.drain()
        assert handle.result(timeout=0) == 1

    def test_a_rollback_forgets_it(self, engine: Engine) -> None:
        with Session(engine) as session:
            charge.using(tx=session).enqueue(1)
            session.rollback()
            charge.using(tx=session).enqueue(2)
            session.commit()
        assert pushed() == [2]

    def test_so_do_a_session_that_is_closed_and_an_error(self, engine: Engine) -> None:
        with Session(engine) as session:
            charge.using(tx=session).enqueue(1)
        with suppress(ZeroDivisionError), Session(engine) as session, session.begin():
            charge.using(tx=session).enqueue(2)
            raise ZeroDivisionError
        session.commit()
        assert pushed() == []

    def test_a_commit_that_the_database_refuses_forgets_it(self, engine: Engine) -> None:
        with Session(engine) as session:
            session.execute(text("INSERT INTO orders VALUES (1)"))
            session.commit()
            charge.using(tx=session).enqueue(1)
            with pytest.raises(IntegrityError):
                session.execute(text("INSERT INTO orders VALUES (1)"))
            session.rollback()
            session.commit()
        assert pushed() == []

    def test_a_savepoint_takes_its_own_jobs_with_it(self, engine: Engine) -> None:
        with Session(engine) as session:
            charge.using(tx=session).enqueue(1)
            savepoint = session.begin_nested()
            charge.using(tx=session).enqueue(2)
            inner = session.begin_nested()
            charge.using(tx=session).enqueue(3)
            inner.commit()
            savepoint.rollback()
            with session.begin_nested():
                charge.using(tx=session).enqueue(4)
            assert pushed() == []
            session.commit()
        assert pushed() == [1, 4]

    def test_a_session_in_the_transaction_of_a_test_commits_for_the_code(self, engine: Engine) -> None:
        with engine.connect() as connection, connection.begin() as outer:
            with Session(connection, join_transaction_mode="create_savepoint") as session:
                charge.using(tx=session).enqueue(1)
                session.execute(text("INSERT INTO orders VALUES (1)"))
                session.commit()
                charge.using(tx=session).enqueue(2)
                session.rollback()
            assert pushed() == [1]
            outer.rollback()
        with engine.connect() as connection:
            assert connection.execute(text("SELECT count(*) FROM orders")).scalar() == 0

    def test_a_scoped_session(self, engine: Engine) -> None:
        session = scoped_session(sessionmaker(engine))
        charge.using(tx=session).enqueue(1)
        session.rollback()
        charge.using(tx=session).enqueue(2)
        session.commit()
        session.remove()
        assert pushed() == [2]

    def test_two_sessions_do_not_see_each_other(self, engine: Engine) -> None:
        first, second = Session(engine), Session(engine)
        one = charge.using(tx=first, key="k").enqueue(1)
        again = charge.using(tx=first, key="k").enqueue(1)
        other = charge.using(tx=second).enqueue(2)
        assert (again.id, again.duplicate) == (one.id, True)
        assert other.id != one.id
        second.commit()
        assert pushed() == [2]
        first.commit()
        assert pushed() == [1, 2]

    def test_a_key_of_the_same_transaction_is_taken(self, engine: Engine) -> None:
        with Session(engine) as session:
            charge.using(tx=session, key="k", on_duplicate="raise").enqueue(1)
            with pytest.raises(DuplicateKey):
                charge.using(tx=session, key="k", on_duplicate="raise").enqueue(2)
            session.begin_nested().rollback()
            session.rollback()
            charge.using(tx=session, key="k", on_duplicate="raise").enqueue(3)
            session.commit()
        assert pushed() == [3]

    def test_job_and_effect_are_committed_together(self, engine: Engine) -> None:
        queue = app.queue("raw")
        with Session(engine) as session:
            charge.using(tx=session).enqueue(1)
            queue.push("work")  # meanwhile
            (job,) = queue.reserve()
            job.commit("done", tx=session)
            with pytest.raises(LeaseLost):
                job.commit("again", tx=session)
            assert queue.get(job.id).state is JobState.RUNNING  # type: ignore[union-attr]
            session.commit()
        assert queue.get(job.id).state is JobState.DONE  # type: ignore[union-attr]
        assert pushed() == [1]

    def test_flows(self, engine: Engine) -> None:
        with Session(engine) as session:
            flow = chain(charge.s(1), charge.s()).enqueue(tx=session)
            session.rollback()
            other = chain(charge.s(2), charge.s()).enqueue(tx=session)
            session.commit()
        while app.drain():
            pass
        assert other.result(timeout=0) == 2
        assert [job.flow for job in app.queue("money").find()] == [other.id] * 2
        assert app.find(flow=flow.id) == []

    def test_a_delay_counts_from_the_push(self, engine: Engine) -> None:
        with app.testing() as clock, Session(engine) as session:
            charge.using(tx=session, delay=60).enqueue(1)
            clock.advance(30)
            session.commit()
            clock.advance(30)
            assert app.drain() == 1

    def test_sessions_of_an_earlier_test_store_nothing(self, engine: Engine) -> None:
        with Session(engine) as session:
            with app.testing():
                charge.using(tx=session).enqueue(1)
            session.commit()
            with app.testing():
                assert pushed() == []
                charge.using(tx=session).enqueue(2)
                session.commit()
                assert pushed() == [2]

    def test_many_in_one_transaction(self, engine: Engine) -> None:
        with Session(engine) as session:
            for order in range(110):
                charge.using(tx=session).enqueue(order)
                app.queue("other").push(order)
            session.commit()
        assert app.queue("money").size().total == 110
        assert pushed() == list(range(10, 110))  # a search returns the newest 100

    def test_a_session_is_not_kept(self, engine: Engine) -> None:
        import weakref

        session = Session(engine)
        charge.using(tx=session).enqueue(1)
        session.close()
        gone = weakref.ref(session)
        del session
        gc.collect()
        assert gone() is None

    def test_declarations_are_stored_as_by_a_deployment(self, engine: Engine) -> None:
        other = Stanchion("postgresql://app@db/shop")
        other.queue("parts", partitions=4)
        other.queue("typed", schema="id bigint")
        with other.testing(), Session(engine) as session:
            other.queue("parts").push_many([1, 2, 3], tx=session)
            other.queue("typed").push({"id": 1}, tx=session)
            session.commit()
            assert other.queue("parts").size().total == 3
            assert other.queue("typed").size().total == 1


class TestConnection:
    def test_commit_and_rollback(self, engine: Engine) -> None:
        with engine.connect() as connection:
            charge.using(tx=connection).enqueue(1)
            assert pushed() == []
            connection.commit()
            assert pushed() == [1]
            charge.using(tx=connection).enqueue(2)
            connection.rollback()
            charge.using(tx=connection).enqueue(3)
        assert pushed() == [1]

    def test_blocks(self, engine: Engine) -> None:
        with engine.begin() as connection:
            charge.using(tx=connection).enqueue(1)
        with suppress(ZeroDivisionError), engine.begin() as connection:
            charge.using(tx=connection).enqueue(2)
            raise ZeroDivisionError
        assert pushed() == [1]

    def test_savepoints(self, engine: Engine) -> None:
        with engine.begin() as connection:
            before = connection.begin_nested()
            charge.using(tx=connection).enqueue(1)
            before.rollback()
            charge.using(tx=connection).enqueue(2)
            with connection.begin_nested():
                charge.using(tx=connection).enqueue(3)
            inner = connection.begin_nested()
            charge.using(tx=connection).enqueue(4)
            inner.rollback()
            charge.using(tx=connection).enqueue(5)
            outer = connection.begin_nested()
            with connection.begin_nested():
                charge.using(tx=connection).enqueue(6)
            outer.rollback()
        assert pushed() == [2, 3, 5]

    def test_a_refused_commit(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        with engine.connect() as connection:
            charge.using(tx=connection).enqueue(1)

            def refuse(dbapi: Any) -> None:
                dbapi.execute("ROLLBACK")
                raise sqlite3.IntegrityError("deferred constraint")

            with monkeypatch.context() as patch:
                patch.setattr(engine.dialect, "do_commit", refuse)
                with pytest.raises(IntegrityError):
                    connection.commit()
            connection.rollback()
            assert pushed() == []
            charge.using(tx=connection).enqueue(2)
            connection.commit()
        assert pushed() == [2]


class TestAsync:
    def test_a_session(self) -> None:
        async def run(make: Callable[[Any], Any]) -> None:
            engine = create_async_engine("sqlite+aiosqlite://")
            session, before = make(async_sessionmaker(engine)), pushed()
            charge.using(tx=session).enqueue(1)
            assert pushed() == before
            await session.rollback()
            charge.using(tx=session).enqueue(2)
            await session.commit()
            await session.close()
            await engine.dispose()

        asyncio.run(run(lambda make: make()))
        asyncio.run(run(lambda make: async_scoped_session(make, asyncio.current_task)))
        assert pushed() == [2, 2]

    def test_aenqueue(self) -> None:
        async def run() -> None:
            engine = create_async_engine("sqlite+aiosqlite://")
            async with AsyncSession(engine) as session:
                await charge.using(tx=session).aenqueue(1)
                await session.rollback()
                await charge.using(tx=session).aenqueue(2)
                await session.commit()
            async with engine.begin() as connection:
                await charge.using(tx=connection).aenqueue(3)
                assert pushed() == [2]
            await engine.dispose()

        asyncio.run(run())
        assert pushed() == [2, 3]


class TestOwnTransaction:
    def test_the_transaction_of_the_app(self) -> None:
        with app.transaction() as tx:
            charge.using(tx=tx).enqueue(1)
            assert pushed() == []
        with suppress(ZeroDivisionError), app.transaction() as tx:
            charge.using(tx=tx).enqueue(2)
            raise ZeroDivisionError
        assert pushed() == [1]
        with pytest.raises(CannotJoin, match="ended"):
            charge.using(tx=tx).enqueue(3)


class TestRefusals:
    @pytest.mark.parametrize("url", ["redis://localhost", "shards:///map.toml", "grpc://manager"])
    def test_a_store_that_joins_nothing_refuses_in_a_test_as_well(self, url: str, engine: Engine) -> None:
        other = Stanchion(url)
        with other.testing(), Session(engine) as session, pytest.raises(CannotJoin, match="leave tx out"):
            other.queue("q").push(1, tx=session)

    def test_the_database_of_managers_joins(self, engine: Engine) -> None:
        other = Stanchion("grpc://manager", database="postgresql://app@db/shop")
        with other.testing(), Session(engine) as session:
            other.queue("q").push(1, tx=session)
            session.commit()
            assert other.queue("q").size().total == 1

    def test_an_app_without_a_url(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("STANCHION_URL", raising=False)
        other = Stanchion()
        with other.testing(), Session(engine) as session:
            other.queue("q").push(1, tx=session)
            session.commit()
            assert other.queue("q").size().total == 1

    def test_a_connection_that_commits_each_statement(self, engine: Engine) -> None:
        with (
            engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
            pytest.raises(CannotJoin, match="autocommit"),
        ):
            charge.using(tx=connection).enqueue(1)
        assert pushed() == []

    def test_an_async_connection_that_is_not_open(self) -> None:
        async def run() -> None:
            with pytest.raises(CannotJoin, match="not open"):
                await charge.using(tx=create_async_engine("sqlite+aiosqlite://").connect()).aenqueue(1)

        asyncio.run(run())

    @pytest.mark.parametrize("tx", [sqlite3.connect(":memory:"), object(), "tx", 7])
    def test_a_connection_that_reports_no_commit(self, tx: Any) -> None:
        with pytest.raises(CannotJoin, match=r"app\.testing\(url="):
            charge.using(tx=tx).enqueue(1)
        assert pushed() == []
