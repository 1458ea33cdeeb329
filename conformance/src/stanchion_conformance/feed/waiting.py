"""Waiting until a job may be due, without taking it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from stanchion import Queue, Stanchion
from stanchion.context import context_of
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, in_threads
from stanchion_conformance.operate.wakeup import LONG, SOON, Counting, soon


class TestWaitForWork:
    """`queue.until_due`: True when there may be work."""

    def test_a_due_job_is_there(self, q: Queue) -> None:
        assert not q.until_due(0)
        q.push(1)
        assert q.until_due(0)
        assert q.until_due(LONG)
        assert q.size().ready == 1

    def test_a_push_ends_the_wait(self, q: Queue, other_q: Queue) -> None:
        with in_threads([soon(lambda: other_q.push(1), 0.3)]):
            assert q.until_due(LONG)

    def test_a_job_that_comes_due_ends_the_wait(self, q: Queue) -> None:
        q.push(1, delay=1.0)
        assert not q.until_due(0)
        assert q.until_due(LONG)
        assert q.pop() is not None

    def test_an_empty_queue_waits_to_the_end(self, app: Stanchion, q: Queue) -> None:
        app.queue("other").push(1)
        q.push(1, delay=1000)
        began = time.monotonic()
        assert not q.until_due(0.7)
        assert time.monotonic() - began >= 0.65

    def test_what_hands_out_no_job_has_no_work(self, q: Queue, other_q: Queue) -> None:
        q.push_many([1, 2])
        q.pause()
        assert not q.until_due(0.3)
        with in_threads([soon(other_q.resume, 0.3)]):
            assert q.until_due(LONG)
        q.configure(max_running=1)
        (held,) = q.reserve()
        assert not q.until_due(0.3)
        with in_threads([soon(held.commit, 0.3)]):
            assert q.until_due(LONG)

    def test_on_an_event_loop_without_threads(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        async def waiting() -> list[bool]:
            before = threading.active_count()
            waits = [asyncio.ensure_future(q.auntil_due(LONG)) for _ in range(50)]
            await asyncio.sleep(0.5)
            assert threading.active_count() - before < 50
            await other_q.apush(1)
            return await asyncio.gather(*waits)

        assert asyncio.run(waiting()) == [True] * 50
        assert app.queue(QUEUE).size().ready == 1

    def test_many_waiters_share_one_look(self, store: Store) -> None:
        counting: Any = Counting(store)
        app = Stanchion(store=counting, poll=0.2)
        found: list[bool] = []
        with in_threads([lambda: found.append(app.queue(QUEUE).until_due(1.0))] * 20):
            pass
        assert found == [False] * 20
        assert counting.calls["stats"] <= 20 + 30  # alone, each would look five times

    def test_a_wait_that_is_cancelled_leaves_nothing(self, app: Stanchion, q: Queue) -> None:
        async def cancelled() -> None:
            waiting = asyncio.ensure_future(q.auntil_due(LONG))
            await asyncio.sleep(0.1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

        asyncio.run(cancelled())
        deadline = time.monotonic() + SOON
        while len(context_of(app).waits._polls.get("due", ())):
            assert time.monotonic() < deadline
            time.sleep(0.01)
