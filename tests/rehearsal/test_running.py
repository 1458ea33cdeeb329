"""Running the jobs of a test: drained, on a running event loop, and at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from stanchion import JobState, Retry, Stanchion, chain, group
from stanchion.errors import InvalidInput, JobFailed

app = Stanchion("sqlite:///never-touched.db")
ran: list[Any] = []
WHO: ContextVar[str] = ContextVar("who", default="nobody")


@app.task(name="add", queue="sums")
def add(a: int, b: int = 0) -> int:
    ran.append(a + b)
    return a + b


@app.task(name="loops", queue="sums")
async def loops() -> None:
    await asyncio.sleep(0)
    ran.append((id(asyncio.get_running_loop()), WHO.get()))


@app.task(name="parent", queue="sums")
def parent() -> None:
    add.enqueue(1)
    ran.append("parent")


@app.task(name="aparent", queue="sums")
async def aparent() -> None:
    await add.aenqueue(2)
    ran.append("aparent")


@app.task(name="flaky", queue="sums", retry=Retry.constant(60, jitter=0, max_attempts=3))
def flaky() -> None:
    ran.append(app.store.now() // 1_000_000)
    raise ConnectionError("away")


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    ran.clear()
    yield
    ran.clear()


class TestDraining:
    def test_on_a_running_loop_it_names_the_other_call(self) -> None:
        async def run() -> None:
            handle = await loops.aenqueue()
            with pytest.raises(InvalidInput, match=r"await app\.adrain\(\)"):
                app.drain()
            assert handle.job().attempts == 0
            assert await app.adrain() == 1
            await handle.aresult(timeout=0)

        with app.testing():
            asyncio.run(run())

    def test_async_tasks_run_on_the_callers_loop_with_its_variables(self) -> None:
        async def run() -> int:
            WHO.set("test")
            await loops.aenqueue()
            await app.adrain()
            return id(asyncio.get_running_loop())

        with app.testing():
            loop = asyncio.run(run())
        assert ran == [(loop, "test")]

    def test_sync_tasks_leave_the_loop_free(self) -> None:
        async def run() -> int:
            add.enqueue(1)
            aparent.enqueue()
            return await app.adrain() + await app.adrain(["none"])

        with app.testing():
            assert asyncio.run(run()) == 3
        assert ran == [1, "aparent", 2]

    def test_of_a_pipeline(self) -> None:
        async def run() -> None:
            await etl.apush(1)
            with pytest.raises(InvalidInput, match=r"await pipeline\.adrain\(\)"):
                etl.drain()
            assert await etl.adrain() == 1

        other = Stanchion("memory://")
        etl = other.pipeline("etl")

        @etl.station("raw")
        async def raw(item: int) -> None:
            await asyncio.sleep(0)
            ran.append(item)

        with other.testing():
            asyncio.run(run())
        assert ran == [1]


class TestAtOnce:
    def test_an_enqueue_runs(self) -> None:
        with app.testing(run="at_once"):
            handle = add.enqueue(1, 2)
            assert handle.result(timeout=0) == 3
            assert add.using(queue="elsewhere").enqueue(5).result(timeout=0) == 5
            app.queue("raw").push({"left": "alone"})
            assert app.queue("raw").size().ready == 1
            assert [job.state for job in app.assert_enqueued(add, times=2)] == [JobState.DONE] * 2

    def test_many_flows_and_names(self) -> None:
        with app.testing(run="at_once"):
            assert [one.result(timeout=0) for one in add.enqueue_many([(1,), (2,)])] == [1, 2]
            assert chain(add.s(1), add.s(2), add.s(3)).enqueue().result(timeout=0) == 6
            assert group(add.s(1), add.s(2)).enqueue().result(timeout=0) == [1, 2]
            assert app.enqueue("add", 7).result(timeout=0) == 7
            events = app.event_group("order", then=add.si(8))
            events.add(add.s(9))
            events.close()
            assert 8 in ran
            assert app.find(state="ready") == []

    def test_what_a_task_enqueues_runs_when_it_has_ended(self) -> None:
        with app.testing(run="at_once"):
            parent.enqueue()
        assert ran == ["parent", 1]

    def test_retries_run_when_they_are_due(self) -> None:
        with app.testing(datetime(2031, 1, 1, tzinfo=UTC), run="at_once") as clock:
            begun = app.store.now() // 1_000_000
            handle = flaky.enqueue()
            assert (handle.job().state, handle.job().failures) == (JobState.SCHEDULED, 1)
            assert "away" in str(handle.job().errors)
            clock.advance(timedelta(hours=1))
            assert ran == [begun, begun + 60, begun + 120]
            with pytest.raises(JobFailed):
                handle.result(timeout=0)
            assert clock.now() == datetime(2031, 1, 1, 1, tzinfo=UTC)

    def test_delays(self) -> None:
        with app.testing(run="at_once") as clock:
            add.using(delay=60).enqueue(1)
            clock.advance(59.999)
            assert ran == []
            clock.advance(0.001)
            assert ran == [1]

    def test_paused_and_resumed(self) -> None:
        with app.testing(run="at_once"):
            app.queue("sums").pause()
            add.enqueue(1)
            assert ran == []
            app.queue("sums").resume()
            assert ran == [1]

    def test_at_the_commit(self) -> None:
        engine = create_engine("sqlite://")
        with app.testing(run="at_once"), Session(engine) as session:
            add.using(tx=session).enqueue(1)
            assert ran == []
            session.rollback()
            add.using(tx=session).enqueue(2)
            session.commit()
            assert ran == [2]
            with engine.begin() as connection:
                add.using(tx=connection).enqueue(3)
                assert ran == [2]
            assert ran == [2, 3]

    def test_events_and_listeners_see_the_same_as_with_a_worker(self) -> None:
        with app.testing(run="at_once"):
            assert app.retry_job(flaky.enqueue().id).failures in (0, 1)
        assert len(ran) == 2

    def test_async_tasks_on_a_running_loop(self) -> None:
        async def run() -> int:
            await loops.aenqueue()
            loops.enqueue()  # blocks the loop: a thread runs the task
            engine = create_async_engine("sqlite+aiosqlite://")
            async with AsyncSession(engine) as session:
                await loops.using(tx=session).aenqueue()
                assert len(ran) == 2
                await session.commit()
                assert len(ran) == 3
            await engine.dispose()
            await aparent.aenqueue()
            return id(asyncio.get_running_loop())

        with app.testing(run="at_once"):
            loop = asyncio.run(run())
        assert ran[0] == ran[2] == (loop, "nobody")
        assert ran[1][0] != loop
        assert ran[3:] == ["aparent", 2]

    def test_a_long_chain_of_jobs_that_enqueue_the_next(self) -> None:
        @app.task(name="next", queue="sums")
        def again(left: int) -> None:
            if left:
                again.enqueue(left - 1)
            else:
                ran.append("end")

        try:
            with app.testing(run="at_once"):
                again.enqueue(300)
        finally:
            del app.tasks["next"]
        assert ran == ["end"]

    def test_after_the_block_nothing_runs_at_once(self) -> None:
        with app.testing(run="at_once"):
            pass
        with app.testing():
            add.enqueue(1)
            assert ran == []

    @pytest.mark.parametrize("run", ["soon", True, None])
    def test_an_unknown_choice(self, run: Any) -> None:
        with pytest.raises(InvalidInput, match="at_once"), app.testing(run=run):
            pass
