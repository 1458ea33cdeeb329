"""Consumers with heartbeats whose claims get no reply, or outlive their block: they hold no job unknown to all."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stanchion import Consumer, Queue, Stanchion
from stanchion.context import context_of
from stanchion.errors import StoreUnavailable
from stanchion.queues.consumer import heart_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion_conformance.harness import QUEUE, StoreClock, row_of, sizes_of, worker
from stanchion_conformance.operate.waits import until

RARE = 1000.0
"""Seconds between heartbeats: no case takes so long that one is due."""


class LosesReplies:
    """A store that loses the replies to the next `losses` claims. With `late`, it carries these out at `arrive`."""

    def __init__(self, store: Store) -> None:
        self._store, self.losses, self.lost = store, 0, threading.Event()
        self.late = False
        self._on_the_way: list[Claim] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def arrive(self) -> None:
        """Carry out the late claims."""
        for claim in self._on_the_way:
            self._store.claim(claim)

    def claim(self, claim: Claim) -> Any:
        if self.losses and self.late:
            self._on_the_way.append(claim)
        else:
            claimed = self._store.claim(claim)
        if self.losses:
            self.losses -= 1
            self.lost.set()
            raise StoreUnavailable("the reply was lost")
        return claimed


class TestLostClaims:
    @pytest.fixture
    def lossy(self, store: Store) -> LosesReplies:
        """The store under test, which can lose replies."""
        return LosesReplies(store)

    @pytest.fixture
    def orders(self, lossy: LosesReplies) -> Queue:
        """A queue in that store."""
        app = Stanchion(store=lossy)
        return app.queue(QUEUE)

    def test_goes_back_though_the_consumer_lives(self, orders: Queue, lossy: LosesReplies, other_q: Queue) -> None:
        job = orders.push(1)
        with Consumer(context_of(orders), "c", heartbeat=0.05) as consumer:
            lossy.losses = 1
            with pytest.raises(StoreUnavailable):
                orders.reserve(holder=consumer)
            until(lambda: other_q.size().ready)
            (again,) = orders.reserve(holder=consumer)
            assert (again.id, again.attempt) == (job.id, 1)
            again.commit()
        assert context_of(other_q).store.workers() == []

    def test_of_one_that_waited_until_its_deadline(self, orders: Queue, lossy: LosesReplies, other_q: Queue) -> None:
        orders.push(1)
        with Consumer(context_of(orders), "c", heartbeat=0.05) as consumer:
            lossy.losses = 1_000_000
            with pytest.raises(StoreUnavailable):
                orders.reserve(wait=0.3, holder=consumer)
            lossy.losses = 0
            until(lambda: other_q.size().ready)
            assert orders.reserve(holder=consumer)[0].attempt == 1

    def test_of_one_that_is_cancelled(self, orders: Queue, lossy: LosesReplies, other_q: Queue) -> None:
        async def cancelled(consumer: Consumer) -> None:
            waiting = asyncio.ensure_future(orders.areserve(wait=600, holder=consumer))
            await asyncio.to_thread(lossy.lost.wait, 60)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        orders.push(1)
        with Consumer(context_of(orders), "c", heartbeat=0.05) as consumer:
            lossy.losses = 1_000_000
            asyncio.run(cancelled(consumer))
            lossy.losses = 0
            until(lambda: other_q.size().ready)

    def test_a_waiter_repeats_its_own(self, orders: Queue, lossy: LosesReplies) -> None:
        job = orders.push(1)
        with Consumer(context_of(orders), "c", heartbeat=0.05) as consumer:
            lossy.losses = 3
            (found,) = orders.reserve(wait=60, holder=consumer)
            threading.Event().wait(0.5)  # ten heartbeats, none of which takes it away
            assert (found.id, found.attempt) == (job.id, 1)
            found.commit()

    def test_that_arrives_after_the_end_of_the_block(
        self, orders: Queue, lossy: LosesReplies, store: Store, clock: StoreClock
    ) -> None:
        job = orders.push(1)
        with Consumer(context_of(orders), "c", heartbeat=RARE) as consumer:
            lossy.losses, lossy.late = 1, True
            with pytest.raises(StoreUnavailable):
                orders.reserve(holder=consumer)
        lossy.arrive()
        assert [row.id for row in store.workers()] == [consumer.id]
        clock.advance(3.1 * RARE)
        assert [row.id for row in store.recover()] == [job.id]


class TestAfterTheBlock:
    def test_a_wait_that_outlives_it_reserves_nothing(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        began = threading.Event()

        def wait() -> list[Any]:
            began.set()
            return q.reserve(wait=60, holder=consumer)

        with ThreadPoolExecutor() as pool:
            with app.consumer("c", heartbeat=RARE) as consumer:
                waiting = pool.submit(wait)
                began.wait(60)
                until(lambda: context_of(app).waits._polls)
            job = other_q.push(1)
            assert waiting.result() == []
        until(lambda: other_q.size().ready)
        (again,) = other_q.reserve()
        assert (again.id, again.attempt) == (job.id, 1)

    def test_a_claim_in_progress_gives_back(self, app: Stanchion, q: Queue, store: Store) -> None:
        job = q.push(1)
        claim = store.claim

        def ends_meanwhile(wanted: Claim) -> Any:
            claimed = claim(wanted)
            heart_of(consumer)._stopping.set()
            return claimed

        with app.consumer("c", heartbeat=RARE) as consumer, pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "claim", ends_meanwhile)
            assert q.reserve(holder=consumer) == []
            patch.undo()
            heart_of(consumer)._stopping.clear()
            until(lambda: sizes_of(store, QUEUE).ready)
            assert row_of(store, job.id).attempts == 0


class TestSuspended:
    def test_a_late_one_beats_before_it_claims(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push(1)
        with app.consumer("c", heartbeat=RARE) as consumer:
            heart_of(consumer)._beaten -= 2.1 * RARE
            clock.advance(3.1 * RARE)
            (job,) = q.reserve(holder=consumer)
            store.beat([worker("witness")])
            assert store.recover() == []
            job.commit()
