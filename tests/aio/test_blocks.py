"""The async forms of blocks and iterators, and of the app itself."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from stanchion import JobState, Stanchion, group
from stanchion.context import context_of
from stanchion.core.concurrency.aio import off_loop, off_loop_alone, off_loop_block, off_loop_each
from stanchion.core.concurrency.threads import DaemonPool


class Owner:
    """An object with methods of all kinds; `steps` shows what they did, and in which thread."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.threads: list[int] = []
        self.entering = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()
        self.go_on.set()

    def step(self, name: str) -> None:
        self.steps.append(name)
        self.threads.append(threading.get_ident())

    @contextmanager
    def block(self, value: int) -> Iterator[int]:
        self.entering.set()
        assert self.go_on.wait(60)
        self.step("enter")
        try:
            yield value
        except ValueError:
            self.step("failed")
            raise
        except KeyError:
            self.step("handled")
        finally:
            self.step("leave")
            self.ended.set()

    def numbers(self, count: int) -> Iterator[int]:
        for number in range(count):
            self.step(str(number))
            yield number
        if count == 7:
            raise ValueError("seven")

    def stop(self) -> None:
        raise StopIteration

    def where(self) -> int:
        return threading.get_ident()

    ablock = off_loop_block(block)
    anumbers = off_loop_each(numbers)
    astop = off_loop(stop)
    awhere, awhere_alone = off_loop(where), off_loop_alone(where)


def test_a_block_is_entered_and_left_by_one_thread() -> None:
    owner = Owner()

    async def run() -> None:
        async with owner.ablock(5) as value:
            assert value == 5
            assert owner.steps == ["enter"]

    asyncio.run(run())
    assert owner.steps == ["enter", "leave"]
    assert len(set(owner.threads)) == 1
    assert threading.get_ident() not in owner.threads


def test_a_block_gets_the_error_that_leaves_it() -> None:
    owner = Owner()

    async def run(error: Exception) -> None:
        async with owner.ablock(5):
            raise error

    with pytest.raises(ValueError, match="no"):
        asyncio.run(run(ValueError("no")))
    asyncio.run(run(KeyError("handled by the block")))
    assert owner.steps == ["enter", "failed", "leave", "enter", "handled", "leave"]


def test_a_block_that_is_cancelled_while_it_is_entered_is_left() -> None:
    owner = Owner()
    owner.go_on.clear()

    async def enter() -> None:
        async with owner.ablock(5):
            pytest.fail("it was cancelled before")

    async def run() -> None:
        entering = asyncio.ensure_future(enter())
        await asyncio.to_thread(owner.entering.wait, 60)
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        assert entering.cancelled()
        owner.go_on.set()
        assert await asyncio.to_thread(owner.ended.wait, 60)

    asyncio.run(run())
    assert owner.steps == ["enter", "leave"]


def test_a_block_that_is_cancelled_within_is_left_before_the_coroutine_ends() -> None:
    owner = Owner()

    async def within() -> None:
        async with owner.ablock(5):
            await asyncio.sleep(3600)

    async def run() -> None:
        inside = asyncio.ensure_future(within())
        while not owner.steps:
            await asyncio.sleep(0.001)
        inside.cancel()
        await asyncio.gather(inside, return_exceptions=True)
        assert inside.cancelled()
        assert owner.steps == ["enter", "leave"]

    asyncio.run(run())


def test_an_iterator_reads_ahead_by_pages_off_the_loop() -> None:
    owner = Owner()

    async def run() -> list[int]:
        found = []
        async for number in owner.anumbers(250):
            found.append(number)
            if number == 0:
                assert len(owner.steps) == 100
        return found

    assert asyncio.run(run()) == list(range(250))
    assert threading.get_ident() not in owner.threads


def test_an_iterator_raises_its_error() -> None:
    async def run() -> None:
        with pytest.raises(ValueError, match="seven"):
            [number async for number in Owner().anumbers(7)]

    asyncio.run(run())


def test_a_call_that_raises_stop_iteration_ends() -> None:
    async def run() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(Owner().astop(), 60)

    asyncio.run(run())


def test_a_long_call_takes_no_thread_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    puts: list[Any] = []
    put = DaemonPool.put

    def putting(pool: DaemonPool, work: Any) -> None:
        puts.append(work)
        put(pool, work)

    monkeypatch.setattr(DaemonPool, "put", putting)
    owner = Owner()
    assert asyncio.run(owner.awhere_alone()) != threading.get_ident()
    assert puts == []
    assert asyncio.run(owner.awhere()) != threading.get_ident()
    assert len(puts) == 1


class Counting(Owner):
    """An owner whose calls take its block's value as a transaction."""

    def effect(self, tx: Any = None) -> int:  # noqa: ARG002 - the twin takes it
        self.step("effect")
        return threading.get_ident()

    aeffect = off_loop(effect)


def test_calls_in_a_transaction_run_in_the_thread_of_its_block() -> None:
    owner = Counting()

    async def run() -> None:
        async with owner.ablock(4711) as tx:
            found = await asyncio.gather(owner.aeffect(tx=tx), owner.aeffect(tx), owner.aeffect(tx=tx))
            assert set(found) == {owner.threads[0]}
            assert await owner.aeffect() != owner.threads[0]
            assert await owner.aeffect(tx=object()) != owner.threads[0]
        assert await owner.aeffect(tx=tx) != owner.threads[0]

    asyncio.run(run())


class TestApp:
    """The app as a block, and its transactions."""

    def test_the_end_of_the_block_closes_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        closed: list[str] = []
        app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
        close = context_of(app).close

        def closing() -> None:
            closed.append(threading.current_thread().name)
            close()

        monkeypatch.setattr(context_of(app), "close", closing)

        async def run() -> None:
            async with app as entered:
                assert entered is app
                await app.queue("orders").apush(1)

        asyncio.run(run())
        assert closed == ["stanchion-call"]
        with app:
            assert app.queue("orders").size().ready == 1
        assert len(closed) == 2

    def test_a_transaction_takes_pushes_of_twins(self, tmp_path: Path) -> None:
        app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
        queue = app.queue("orders")

        async def run() -> None:
            await queue.apush(0)
            async with app.atransaction() as tx:
                await queue.apush(1, tx=tx)
                await queue.apush_many([2, 3], tx=tx)
                assert (await queue.asize()).ready == 1
            with suppress(KeyError):
                async with app.atransaction() as tx:
                    await queue.apush(4, tx=tx)
                    raise KeyError("back")
            assert [job.payload for job in await queue.apeek(10)] == [0, 1, 2, 3]

        asyncio.run(run())

    def test_transactions_of_many_coroutines_wait_for_each_other(self, tmp_path: Path) -> None:
        app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
        queue = app.queue("orders")

        async def push(number: int) -> None:
            async with app.atransaction() as tx:
                await queue.apush(number, tx=tx)
                await asyncio.sleep(0)
                await queue.apush(number, tx=tx)

        async def run() -> None:
            await asyncio.gather(*map(push, range(20)), *(queue.apush(n) for n in range(20)))

        asyncio.run(run())
        assert queue.size().ready == 60

    def test_a_call_in_a_transaction_needs_no_thread_of_the_pool(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
        monkeypatch.setattr(context_of(app), "calls", DaemonPool("few", 1))
        queue = app.queue("orders")
        add = app.task(name="add", queue="orders")(lambda one, two: one + two)

        async def run() -> None:
            async with app.atransaction() as tx:
                waiting = asyncio.ensure_future(queue.apush(1))  # for the transaction, in the only thread
                await asyncio.sleep(0)
                await asyncio.wait_for(queue.apush(2, tx=tx), 20)
                await asyncio.wait_for(add.using(tx=tx).aenqueue(1, 2), 20)
                await asyncio.wait_for(add.using(tx=tx).aenqueue_many([(1, 2)]), 20)
                await asyncio.wait_for((add.s(1, 2) | add.s(3)).aenqueue(tx), 20)
            await waiting

        asyncio.run(run())
        assert queue.size().total == 6

    def test_a_reservation_is_a_block_of_coroutines(self) -> None:
        app = Stanchion("memory://")
        queue = app.queue("orders")
        queue.push_many([1, 2])

        async def run() -> None:
            for job in await queue.areserve(2):
                try:
                    async with job:
                        if job.payload == 2:
                            raise ValueError("two")
                except ValueError:
                    assert job.settled_as is JobState.SCHEDULED
                else:
                    assert job.settled_as is JobState.DONE

        asyncio.run(run())

    def test_a_reservation_of_a_cancelled_coroutine_goes_back(self) -> None:
        app = Stanchion("memory://")
        queue = app.queue("orders")
        queue.push(1)

        async def work() -> None:
            (job,) = await queue.areserve()
            async with job:
                await asyncio.sleep(3600)

        async def run() -> None:
            working = asyncio.ensure_future(work())
            while (await queue.asize()).running == 0:
                await asyncio.sleep(0.001)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

        asyncio.run(run())
        (job,) = queue.peek()
        assert (job.state, job.failures, job.attempts) == (JobState.READY, 0, 0)

    def test_handles_of_jobs_and_flows_are_awaited(self) -> None:
        app = Stanchion("memory://")
        add = app.task(name="add")(lambda one, two: one + two)

        async def run() -> list[Any]:
            single = await add.aenqueue(1, 2)
            flow = await group(add.s(n, n) for n in range(3)).aenqueue()
            await app.adrain()
            return [await single, await flow, [await member async for member in flow]]

        assert asyncio.run(run()) == [3, [0, 2, 4], [0, 2, 4]]
