"""Consumers with heartbeats: what they reserve needs no lease, and goes back when they are dead."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from stanchion import JobState, LeaseLost, Queue, Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import HOLDER
from stanchion_conformance.harness import QUEUE, StoreClock, row_of, worker

NAME = "billing:4711"
RARE = 1000.0
"""Seconds between heartbeats: no case takes so long that one is due."""


class TestConsumers:
    def test_its_heartbeats_hold_its_jobs(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push(1)
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            (job,) = q.reserve(holder=consumer)
            assert job.worker == consumer.id
            assert consumer.id.startswith(f"{NAME}-{os.getpid()}-")
            for _ in range(5):
                clock.advance(2.9 * RARE)
                consumer.beat()
                store.beat([worker("witness")])
                assert store.recover() == []
            job.commit()
        assert row_of(store, job.id).worker == consumer.id
        assert [row.id for row in store.workers()] == ["witness"]

    def test_its_jobs_go_back_after_three_missed_heartbeats(
        self, app: Stanchion, q: Queue, other_q: Queue, clock: StoreClock
    ) -> None:
        q.push(1)
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            (job,) = q.reserve(holder=consumer)
            clock.advance(2.9 * RARE)
            assert context_of(other_q).store.recover() == []
            assert other_q.reserve() == []
            clock.advance(0.2 * RARE)
            (row,) = context_of(other_q).store.recover()
            assert (row.id, row.attempts, row.worker) == (job.id, 1, None)
            (again,) = other_q.reserve()
            with pytest.raises(LeaseLost):
                job.commit()
            again.commit()

    def test_the_end_of_its_block_takes_nothing_away_at_once(
        self, app: Stanchion, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        q.push_many([1, 2])
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            done, left = q.reserve(2, holder=consumer)
        done.commit()
        clock.advance(3.1 * RARE)
        assert [row.id for row in store.recover()] == [left.id]
        store.maintain()
        assert store.workers() == []

    def test_a_thread_beats(self, app: Stanchion, other_store: Store, clock: StoreClock) -> None:
        with app.consumer(NAME, heartbeat=0.05):
            clock.advance(1000)
            before, paused = other_store.now(), threading.Event()
            for _ in range(1200):
                if other_store.workers()[0].last_seen_at >= before:
                    break
                paused.wait(0.05)
            else:
                pytest.fail("no heartbeat came")
        assert other_store.workers() == []

    def test_is_listed_with_its_queues(self, app: Stanchion, q: Queue, store: Store) -> None:
        q.push_many([1, 2])
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            jobs = q.reserve(2, holder=consumer)
            consumer.beat()
            (row,) = store.workers(holders=True)
            assert (row.id, row.state, row.queues, row.running) == (consumer.id, "consumer", (QUEUE,), 2)
            assert (row.pid, row.threads, row.heartbeat) == (os.getpid(), 0, RARE)
            app.settle(job.committed() for job in jobs)

    def test_it_takes_no_part_in_the_polling_of_workers(self, app: Stanchion, q: Queue, store: Store) -> None:
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            q.reserve(holder=consumer)
            consumer.beat()
            assert store.beat([worker("w")]).sharing == 1

    def test_two_of_one_name_are_told_apart(
        self, app: Stanchion, other_app: Stanchion, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        q.push_many([1, 2])
        with app.consumer(NAME, heartbeat=RARE) as dead, other_app.consumer(NAME, heartbeat=RARE) as alive:
            assert dead.id != alive.id
            (lost,), (kept,) = q.reserve(holder=dead), other_app.queue(QUEUE).reserve(holder=alive)
            clock.advance(3.1 * RARE)
            alive.beat()
            assert [row.id for row in store.recover()] == [lost.id]
            kept.commit()

    def test_a_lease_of_its_own_decides_alone(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push_many([1, 2])
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            (short,), (held,) = q.reserve(lease=30, holder=consumer), q.reserve(holder=consumer)
            assert short.worker == held.worker == consumer.id
            consumer.beat()
            rows = [(row.state, row.running) for row in store.workers(holders=True)]
            assert rows == [("consumer", 1), (HOLDER, 1)]
            clock.advance(31)
            assert [row.id for row in store.recover()] == [short.id]
            held.commit()

    def test_extending_changes_nothing(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push(1)
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            (job,) = q.reserve(holder=consumer)
            job.extend(5)
            clock.advance(60)
            assert store.recover() == []
            job.commit()

    def test_knows_when_its_jobs_are_to_stop(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        q.push(1)
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            (job,) = q.reserve(holder=consumer)
            assert not job.cancelled
            other_q.cancel(job.id)
            assert job.cancelled
            job.abandon()
        assert job.state is JobState.CANCELLED

    def test_pops_and_batches(self, app: Stanchion, q: Queue) -> None:
        q.push_many([1, 2])
        with app.consumer(NAME, heartbeat=RARE) as consumer:
            popped = q.pop(holder=consumer)
            assert popped is not None
            assert popped.worker == consumer.id
            with q.batch(holder=consumer) as jobs:
                assert [job.worker for job in jobs] == [consumer.id]
        assert q.counts().committed == 1

    def test_without_its_block_it_reserves_nothing(self, app: Stanchion, q: Queue, store: Store) -> None:
        q.push(1)
        consumer = app.consumer(NAME, heartbeat=RARE)
        for take in (q.reserve, q.pop, q.batch):
            with pytest.raises(InvalidInput, match="within its block"):
                take(holder=consumer)
        with consumer:
            pass
        with pytest.raises(InvalidInput, match="within its block"):
            q.reserve(holder=consumer)
        with pytest.raises(InvalidInput, match="make a new one"), consumer:
            pass
        assert (q.size().ready, store.workers()) == (1, [])

    def test_on_an_event_loop(self, app: Stanchion, q: Queue, store: Store) -> None:
        q.push(1)

        async def consume() -> None:
            async with app.consumer(NAME, heartbeat=RARE) as consumer:
                (job,) = await q.areserve(holder=consumer)
                await job.acommit()

        asyncio.run(consume())
        assert (q.counts().committed, store.workers()) == (1, [])

    @pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", 4711])
    def test_a_wrong_name_is_refused(self, app: Stanchion, name: str) -> None:
        with pytest.raises(InvalidInput, match="name of a consumer"):
            app.consumer(name)

    @pytest.mark.parametrize("heartbeat", [0, -1, "10", True])
    def test_a_wrong_heartbeat_is_refused(self, app: Stanchion, heartbeat: float) -> None:
        with pytest.raises(InvalidInput, match="heartbeat"):
            app.consumer(NAME, heartbeat)
