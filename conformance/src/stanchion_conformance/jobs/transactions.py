"""The caller's transaction: joined if the store can, otherwise refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Stanchion, chain
from stanchion.errors import CannotJoin, DuplicateKey, InvalidInput, LeaseLost, PayloadMisfit
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import Counts
from stanchion_conformance.harness import (
    LONG_LEASE,
    NO_TRANSACTION,
    QUEUE,
    StoreClock,
    claim,
    new_job,
    row_of,
    sizes_of,
    transaction,
)
from stanchion_conformance.operate.shapes import NEEDS, shape


class Failed(Exception):
    """Makes a transaction roll back."""


@contextmanager
def rolled_back(app: Stanchion) -> Iterator[Any]:
    """Open a transaction, and roll it back at the end of the block."""
    with suppress(Failed), app.transaction() as tx:
        yield tx
        raise Failed


class TestJoining:
    """For stores with transactions."""

    @pytest.fixture(autouse=True)
    def joins(self, store: Store) -> None:
        """Say so where this class is not for the store."""
        assert store.capabilities.joins_transactions, "it joins no transactions: del TestJoining"

    def test_a_committed_push_is_there(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        with app.transaction() as tx:
            pushed = q.push(1, tx=tx)
            q.push_many([2, 3], tx=tx)
        assert other_q.size().total == 3
        assert q.counts().pushed == 3
        assert other_q.reserve()[0].id == pushed.id

    def test_a_transaction_of_another_app_of_the_store(self, q: Queue, other_app: Stanchion) -> None:
        with other_app.transaction() as tx:
            q.push(1, tx=tx)
        with rolled_back(other_app) as tx:
            q.push(2, tx=tx)
        assert [job.payload for job in q.find()] == [1]

    def test_a_push_that_was_rolled_back_is_never_seen(self, app: Stanchion, q: Queue) -> None:
        with rolled_back(app) as tx:
            q.push_many([1, Push(2, key="k"), Push(3, delay=60)], tx=tx)
        assert q.size().total == 0
        assert q.counts() == Counts()
        assert q.find() == []
        assert not q.push(2, key="k").duplicate

    def test_coroutines_push_and_commit_in_it(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        q.push("first")

        async def run() -> None:
            (job,) = await q.areserve(lease=LONG_LEASE)
            async with app.atransaction() as tx:
                await job.acommit("done", tx=tx)
                await asyncio.gather(*(q.apush(n, tx=tx) for n in range(20)))
                assert (await other_q.asize()).ready == 0
            with suppress(Failed):
                async with app.atransaction() as tx:
                    await q.apush("never", tx=tx)
                    raise Failed

        asyncio.run(run())
        assert (other_q.size().ready, other_q.counts().committed) == (20, 1)

    def test_a_coroutine_that_is_cancelled_in_it_rolls_it_back(self, app: Stanchion, q: Queue) -> None:
        async def push(pushed: asyncio.Event) -> None:
            async with app.atransaction() as tx:
                await q.apush(1, tx=tx)
                pushed.set()
                await asyncio.sleep(3600)

        async def run() -> None:
            pushed = asyncio.Event()
            pushing = asyncio.ensure_future(push(pushed))
            await pushed.wait()
            pushing.cancel()
            await asyncio.gather(pushing, return_exceptions=True)
            await q.apush(2)

        asyncio.run(run())
        assert [job.payload for job in q.peek(5)] == [2]

    def test_keys_of_finished_jobs_hold_in_it_too(self, app: Stanchion, q: Queue) -> None:
        first = q.push(1, key="k")
        q.reserve()[0].commit()
        with rolled_back(app) as tx:
            assert q.push(2, key="k", key_ttl=60, tx=tx).id == first.id
            assert not q.push(3, key="new", key_ttl=60, tx=tx).duplicate
        assert q.size().total == 0
        with app.transaction() as tx:
            assert not q.push(3, key="new", key_ttl=60, tx=tx).duplicate
        assert q.reserve()[0].payload == 3

    def test_payloads_are_checked_in_it_too(self, app: Stanchion, q: Queue, other_app: Stanchion) -> None:
        typed = app.queue(QUEUE, schema="id bigint not null")
        with app.transaction() as tx, pytest.raises(InvalidInput, match=r"app\.setup"):
            typed.push({"id": 1}, tx=tx)
        app.setup()
        with app.transaction() as tx:
            typed.push({"id": 1}, tx=tx)
            with pytest.raises(PayloadMisfit):
                typed.push({"id": "2"}, tx=tx)
        other = other_app.queue(QUEUE, schema="id bigint not null")
        with other_app.transaction() as tx:
            other.push({"id": 3}, tx=tx)
        assert q.size().total == 2

    def test_tasks_are_enqueued_in_it_too(self, app: Stanchion) -> None:
        @app.task(name="work", queue=QUEUE)
        def work() -> None: ...

        with rolled_back(app) as tx:
            work.using(tx=tx).enqueue()
        assert app.queue(QUEUE).size().total == 0
        with app.transaction() as tx:
            handle = work.using(tx=tx).enqueue()
        assert handle.state is JobState.READY

    def test_job_and_effect_are_committed_together(self, app: Stanchion, q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve()
        with app.transaction() as tx:
            q.push("effect", tx=tx)
            job.commit("result", tx=tx)
        done = q.get(job.id)
        assert done is not None
        assert (done.state, done.result) == (JobState.DONE, "result")
        assert q.size().total == 1

    def test_or_neither_is(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push(1)
        (job,) = q.reserve(lease=10)
        with rolled_back(app) as tx:
            q.push("effect", tx=tx)
            job.commit(tx=tx)
        running = q.get(job.id)
        assert running is not None
        assert running.state is JobState.RUNNING
        assert q.counts().committed == 0
        clock.advance(11)
        assert [again.id for again in q.reserve(5)] == [job.id]

    def test_a_move_is_rolled_back(self, app: Stanchion, q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve()
        with rolled_back(app) as tx:
            job.move("next", tx=tx)
        assert q.size().running == 1
        assert app.queue("next").size().total == 0

    def test_a_push_into_the_queue_to_which_it_has_moved_a_job(self, app: Stanchion, q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve()
        with app.transaction() as tx:
            job.move("next", tx=tx)
            app.queue("next").push(2, tx=tx)
            app.queue("next").push(3, tx=tx)
        assert app.queue("next").size().total == 3
        app.queue("next").push(4)
        assert [queue.name for queue in app.queues()] == ["next", q.name]

    @pytest.mark.parametrize("need", NEEDS)
    def test_a_push_shapes_a_queue_of_another_process(
        self, app: Stanchion, store: Store, other_store: Store, need: str
    ) -> None:
        plain, first, second = new_job(), new_job(**NEEDS[need]), new_job(**NEEDS[need])
        other_store.push([plain])
        for job in (first, second):
            with app.transaction() as tx:
                store.push([job], tx)
        assert shape(other_store) == "slots"
        held = [plain.id, first.id, second.id] if need == "rate" else [plain.id, first.id]
        assert [row.id for row in claim(other_store, 3)] == held

    def test_pushes_of_several_shapes(self, app: Stanchion, store: Store, other_store: Store) -> None:
        store.push([new_job()])
        with app.transaction() as tx:
            store.push([new_job(lane=2)], tx)
            store.push([new_job(order_key="k")], tx)
        assert shape(other_store) == "limited"
        assert len(claim(other_store, 4)) == 3

    def test_the_effect_of_a_late_worker_is_not_committed(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push(1)
        (late,) = q.reserve(lease=10)
        clock.advance(11)
        (again,) = q.reserve()
        with pytest.raises(LeaseLost), app.transaction() as tx:  # noqa: PT012
            q.push("effect", tx=tx)
            late.commit(tx=tx)
        assert q.size().total == 1
        again.commit()

    def test_a_duplicate_found_in_it(self, app: Stanchion, q: Queue) -> None:
        first = q.push(1, key="k")
        with app.transaction() as tx:
            again = q.push(2, key="k", tx=tx)
        assert (again.id, again.duplicate) == (first.id, True)
        with pytest.raises(DuplicateKey), app.transaction() as tx:  # noqa: PT012
            q.push(3, tx=tx)
            q.push(4, key="k", on_duplicate="raise", tx=tx)
        assert q.size().total == 1

    def test_what_is_no_transaction_is_refused(self, q: Queue, store: Store) -> None:
        q.push(1)
        (job,) = q.reserve()
        before = row_of(store, job.id)
        wrong: list[Any] = [object(), "transaction", True]
        for tx in wrong:
            with pytest.raises(CannotJoin):
                q.push(2, tx=tx)
            with pytest.raises(CannotJoin):
                job.commit(tx=tx)
        assert q.size().total == 1
        assert row_of(store, job.id) == before


class TestAnotherDatabase:
    """For stores of which another one may be elsewhere: the fixture `elsewhere` gives it, set up and empty.

    The caller's transaction is on that other database, so that the store could not commit as one with it.
    """

    def test_is_refused_by_every_verb(self, app: Stanchion, q: Queue, elsewhere: Store, clock: StoreClock) -> None:
        @app.task(name="work", queue=QUEUE)
        def work() -> None: ...

        clock.governs(elsewhere)
        events = app.event_group("events")
        q.push_many([1, 2])
        committed, moved = q.reserve(2, lease=LONG_LEASE)
        refused: list[Callable[[Any], Any]] = [
            lambda tx: q.push(3, tx=tx),
            lambda tx: q.push(3, key="k", tx=tx),
            lambda tx: q.push_many([3, 4], tx=tx),
            lambda tx: work.using(tx=tx).enqueue(),
            lambda tx: chain(work.s(), work.si()).enqueue(tx),
            lambda tx: events.add(work.s(), tx=tx),
            lambda tx: committed.commit("done", tx=tx),
            lambda tx: moved.move("next", tx=tx),
        ]
        for verb in refused:
            for _ in range(2):  # at the second look as well
                with transaction(elsewhere) as tx, pytest.raises(CannotJoin, match="another database"):
                    verb(tx)
        assert (q.size().total, q.size().running) == (2, 2)
        assert app.queue("next").size().total == 0
        for queue in (QUEUE, "next"):
            assert sizes_of(elsewhere, queue).total == 0
        committed.commit("done")
        moved.move("next")

    def test_has_its_transaction_unharmed(self, q: Queue, elsewhere: Store) -> None:
        with transaction(elsewhere) as tx:
            for _ in range(2):
                elsewhere.push([new_job()], tx)
                with pytest.raises(CannotJoin):
                    q.push(1, tx=tx)
        assert sizes_of(elsewhere, QUEUE).total == 2
        assert q.size().total == 0

    def test_leaves_those_of_the_right_one_alone(self, app: Stanchion, q: Queue, elsewhere: Store) -> None:
        with app.transaction() as tx:
            q.push(1, tx=tx)
        with transaction(elsewhere) as other, pytest.raises(CannotJoin):
            q.push(2, tx=other)
        with app.transaction() as tx:
            q.push(3, tx=tx)
        assert q.size().total == 2


class TestRefusing:
    """For stores without transactions."""

    @pytest.fixture(autouse=True)
    def refuses(self, store: Store) -> None:
        """Say so where this class is not for the store."""
        assert not store.capabilities.joins_transactions, "it joins transactions: del TestRefusing"

    def test_has_none_to_open(self, app: Stanchion) -> None:
        with pytest.raises(CannotJoin), app.transaction():
            pass

    def test_stores_nothing(self, q: Queue) -> None:
        with pytest.raises(CannotJoin):
            q.push(1, tx=NO_TRANSACTION)
        with pytest.raises(CannotJoin):
            q.push_many([1, 2], tx=NO_TRANSACTION)
        assert q.size().total == 0

    def test_settles_nothing(self, q: Queue, store: Store) -> None:
        q.push(1)
        (job,) = q.reserve()
        before = row_of(store, job.id)
        with pytest.raises(CannotJoin):
            job.commit(tx=NO_TRANSACTION)
        with pytest.raises(CannotJoin):
            job.move("next", tx=NO_TRANSACTION)
        assert row_of(store, job.id) == before
        job.commit()
