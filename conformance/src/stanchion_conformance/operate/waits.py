"""Shared waits: one poll for all waiters, signals of ends and of freed starts, and no job lost when a wait ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from stanchion import Queue, Stanchion
from stanchion.context import context_of
from stanchion.errors import ResultTimeout, StoreUnavailable
from stanchion.jobs.handle import JobHandle
from stanchion.stores.protocol import Listener, Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.wakeup.signs import NO_SIGNS, Signs
from stanchion_conformance.harness import QUEUE, claim, in_threads, new_job, payloads, sizes_of
from stanchion_conformance.operate.wakeup import LONG, SOON, Counting, seconds, soon


def until(reached: Callable[[], Any]) -> Any:
    """Wait until something is true; return it."""
    deadline = time.monotonic() + SOON
    while not (value := reached()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
    return value


def hears_ends(app: Stanchion) -> bool:
    """Return whether the app gets signals of ends of jobs, so that it need not poll for them."""
    return QUEUE in (context_of(app).waits.heard.finished or ())


def hears_work(app: Stanchion) -> bool:
    """Return whether the app gets signals of work."""
    return QUEUE in (context_of(app).waits.heard.queues or ())


class TestTogether:
    """Many waiters poll the store hardly more often than one."""

    def test_many_who_wait_for_work_share_one_look(self, store: Store) -> None:
        counting: Any = Counting(store)
        q = Stanchion(store=counting, poll=0.2).queue(QUEUE)
        with in_threads([lambda: q.reserve(wait=1.0)] * 20):
            pass
        assert (
            counting.calls["claim"] <= 20 + 20 + 15
        )  # each tries by itself first, and where no signals are, once more

    def test_many_who_wait_for_results_share_one_look(self, store: Store, q: Queue) -> None:
        counting: Any = Counting(store)
        app = Stanchion(store=counting, poll=0.2)
        handles = [JobHandle(app, job.id) for job in q.push_many(range(20))]

        def wait(handle: JobHandle) -> None:
            with pytest.raises(ResultTimeout):
                handle.result(timeout=1.0)

        with in_threads([lambda handle=handle: wait(handle) for handle in handles]):  # type: ignore[misc]
            pass
        assert counting.calls["fetch"] <= 60

    def test_each_gets_a_job_of_its_own(self, q: Queue, other_q: Queue) -> None:
        got: list[Any] = []
        with in_threads([lambda: got.extend(payloads(q.reserve(wait=LONG)))] * 5):
            other_q.push_many(range(5))
        assert sorted(got) == [0, 1, 2, 3, 4]
        assert (q.size().running, q.counts().reserved) == (5, 5)

    def test_each_gets_up_to_what_it_asked_for(self, q: Queue, other_q: Queue) -> None:
        got: list[int] = []
        with in_threads([lambda: got.append(len(q.reserve(3, wait=LONG)))] * 2):
            time.sleep(0.1)
            other_q.push_many(range(6))
        assert all(1 <= number <= 3 for number in got)
        assert sum(got) == q.size().running

    def test_each_pops_one(self, q: Queue, other_q: Queue) -> None:
        got: list[Any] = []
        with in_threads([lambda: got.append(q.pop(wait=LONG))] * 3):
            other_q.push_many(range(3))
        assert sorted(job.payload for job in got) == [0, 1, 2]
        assert (q.size().total, q.counts().popped) == (0, 3)

    def test_the_end_of_one_job_is_told_to_all_who_wait_for_it(self, app: Stanchion, other_q: Queue) -> None:
        job = other_q.push(1)
        got: list[Any] = []
        with in_threads([lambda: got.append(JobHandle(app, job.id).result(timeout=LONG))] * 3):
            other_q.reserve()[0].commit(result=7)
        assert got == [7, 7, 7]

    def test_who_comes_has_the_others_looked_at_no_more_often(self, store: Store, other_q: Queue) -> None:
        counting: Any = WithoutConnection(store)
        app = Stanchion(store=counting)
        jobs = other_q.push_many(range(300))

        async def main() -> None:
            waits = []
            for job in jobs:
                waits.append(asyncio.create_task(JobHandle(app, job.id).aresult()))
                await asyncio.sleep(0.002)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

        asyncio.run(main())
        assert counting.asked <= 60 * len(jobs)


class Deaf:
    """A listener that claims to be connected, and gets no signal."""

    connected = True

    def __init__(self, listener: Listener) -> None:
        self._listener, self._woken = listener, threading.Event()

    def wait(self, timeout: float) -> bool:
        """Be ended by `wake` alone."""
        woken = self._woken.wait(timeout)
        self._woken.clear()
        return woken

    def wake(self) -> None:
        """End the wait."""
        self._woken.set()

    def signs(self) -> Signs:
        """Have heard nothing."""
        return NO_SIGNS

    def close(self) -> None:
        """Close what never was heard."""
        self._listener.close()


class WithoutSignals:
    """A store whose signals get lost."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def listen(self, queues: Iterable[str], **options: Any) -> Deaf:
        """Return a listener that hears nothing."""
        return Deaf(self._store.listen(queues, **options))


class WithoutConnection(WithoutSignals):
    """A store whose signals don't arrive, and which says so."""

    asked = 0

    def fetch(self, ids: Sequence[str]) -> Any:
        """Return the jobs, and count them."""
        self.asked += len(ids)
        return self._store.fetch(ids)

    def listen(self, queues: Iterable[str], **options: Any) -> Deaf:
        """Return a listener that hears nothing, and says so."""
        listener = super().listen(queues, **options)
        listener.connected = False
        return listener


class TestLostSignals:
    """A signal that gets lost costs a poll at most, and never more than the waiter's own time."""

    @pytest.fixture
    def deaf(self, store: Store) -> Stanchion:
        without: Any = WithoutSignals(store)
        return Stanchion(store=without, poll=LONG)

    def test_a_result_is_there_when_the_time_is_over(self, deaf: Stanchion, other_q: Queue) -> None:
        got: list[Any] = []
        job = other_q.push(1)

        def end() -> None:
            until(lambda: hears_ends(deaf))
            time.sleep(0.3)
            other_q.reserve()[0].commit(result=7)

        with in_threads([end]):
            assert seconds(lambda: got.append(JobHandle(deaf, job.id).result(timeout=2.0))) < SOON
        assert got == [7]

    def test_a_job_is_there_when_the_time_is_over(self, deaf: Stanchion, other_q: Queue) -> None:
        got: list[Any] = []

        def push() -> None:
            until(lambda: hears_work(deaf))
            time.sleep(0.3)
            other_q.push(1)

        with in_threads([push]):
            assert seconds(lambda: got.extend(payloads(deaf.queue(QUEUE).reserve(wait=2.0)))) < SOON
        assert got == [1]

    def test_both_come_with_the_next_poll(self, store: Store, other_q: Queue) -> None:
        without: Any = WithoutSignals(store)
        app = Stanchion(store=without, poll=0.1)
        job = other_q.push(1)

        def end() -> None:
            until(lambda: hears_ends(app))
            other_q.reserve()[0].commit(result=7)
            other_q.push(2)

        with in_threads([end]):
            assert JobHandle(app, job.id).result(timeout=LONG) == 7
            assert payloads(app.queue(QUEUE).reserve(wait=LONG)) == [2]


class TestAwaiting:
    """Coroutines wait in the same way; they occupy no thread, and a cancelled one keeps no job."""

    def test_results(self, app: Stanchion, other_q: Queue) -> None:
        jobs = other_q.push_many(range(200))
        before = threading.active_count()  # those of apps of other cases may go on for a while

        async def main() -> list[Any]:
            waits = [asyncio.create_task(JobHandle(app, job.id).aresult(timeout=LONG)) for job in jobs]
            await asyncio.sleep(0.1)
            assert threading.active_count() < before + 100
            for held in other_q.reserve(200):
                held.commit(result=held.payload)
            return await asyncio.gather(*waits)

        assert asyncio.run(main()) == list(range(200))

    def test_jobs(self, q: Queue, other_q: Queue) -> None:
        async def main() -> list[Any]:
            waits = [asyncio.create_task(q.areserve(wait=LONG)) for _ in range(50)]
            pops = [asyncio.create_task(q.apop(wait=LONG)) for _ in range(50)]
            await asyncio.sleep(0.1)
            await asyncio.to_thread(other_q.push_many, range(100))
            reserved = [job.payload for jobs in await asyncio.gather(*waits) for job in jobs]
            return reserved + [job.payload for job in await asyncio.gather(*pops) if job is not None]

        assert sorted(asyncio.run(main())) == list(range(100))

    def test_gives_up_in_time(self, q: Queue, app: Stanchion) -> None:
        async def main() -> None:
            assert await q.areserve(wait=0.05) == []
            assert await q.apop(wait=0.05) is None
            with pytest.raises(ResultTimeout, match="still ready"):
                await JobHandle(app, job.id).aresult(timeout=0.05)

        job = app.queue("another").push(1)
        asyncio.run(main())

    def test_one_whose_loop_is_closed_takes_no_job(self, q: Queue, other_q: Queue) -> None:
        q.configure(lease=1e6)
        loop = asyncio.new_event_loop()
        wait = loop.create_task(q.areserve(wait=LONG))
        loop.run_until_complete(asyncio.sleep(0.3))
        loop.close()
        try:
            with in_threads([soon(lambda: other_q.push(1), 0.1)]):
                assert payloads(q.reserve(wait=LONG)) == [1]
        finally:
            wait.get_coro().close()
            del wait

    def test_several_loops_share_one_app(self, q: Queue, other_q: Queue) -> None:
        got: list[Any] = []

        async def main() -> None:
            got.extend(payloads(await q.areserve(wait=LONG)))

        with in_threads([lambda: asyncio.run(main())] * 3):
            time.sleep(0.1)
            other_q.push_many([1, 2, 3])
        assert sorted(got) == [1, 2, 3]

    def test_a_closed_app_ends_the_waits(self, app: Stanchion, q: Queue) -> None:
        job = app.queue("another").push(1)

        async def main() -> None:
            waits = [
                asyncio.create_task(q.areserve(wait=LONG)),
                asyncio.create_task(q.apop(wait=LONG)),
                asyncio.create_task(JobHandle(app, job.id).aresult()),
            ]
            await asyncio.sleep(0.3)
            await asyncio.to_thread(app.close)
            for wait in waits:
                with pytest.raises(StoreUnavailable, match="closed during this wait"):
                    await asyncio.wait_for(wait, SOON)

        asyncio.run(main())
        q.push(2)
        assert payloads(q.reserve(wait=LONG)) == [2]  # it is opened again

    def test_who_was_cancelled_is_not_asked_for_any_more(self, store: Store, other_q: Queue) -> None:
        counting: Any = Counting(store)
        app = Stanchion(store=counting, poll=0.02)
        jobs = other_q.push_many(range(10))

        async def main() -> None:
            waits = [asyncio.create_task(JobHandle(app, job.id).aresult()) for job in jobs]
            waits += [asyncio.create_task(app.queue("empty").areserve(wait=LONG))]
            async with asyncio.timeout(SOON):
                while not {"claim", "fetch"} <= counting.calls.keys():
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            await asyncio.sleep(0.3)
            before = dict(counting.calls)
            await asyncio.sleep(0.5)
            after = dict(counting.calls)
            assert {verb: after[verb] for verb in ("claim", "fetch")} == {
                verb: before[verb] for verb in ("claim", "fetch")
            }

        asyncio.run(main())


class TestCancelledAwaits:
    """Jobs handed out to a coroutine that was cancelled meanwhile go back."""

    @pytest.mark.parametrize("verb", ["claim", "pop"])
    @pytest.mark.parametrize("when", ["in the first try", "in a later look"])
    def test_cancelled_while_a_job_is_handed_out_it_gives_it_back(self, store: Store, verb: str, when: str) -> None:
        slow: Any = Slow(store, "claim", after=0 if when == "in the first try" else 1)
        app = Stanchion(store=slow, poll=0.1)
        store.configure(QUEUE, {"lease": 1e6})

        async def main() -> None:
            q = app.queue(QUEUE)
            wait = asyncio.create_task(q.areserve(wait=LONG) if verb == "claim" else q.apop(wait=LONG))
            if when == "in a later look":
                await asyncio.to_thread(until, lambda: slow.calls)
            await asyncio.to_thread(store.push, [new_job('"a"'), new_job('"b"')])
            await asyncio.to_thread(slow.under_way.wait, SOON)
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait
            slow.go_on.set()
            await asyncio.to_thread(until, lambda: slow.done)

        asyncio.run(main())
        until(lambda: sizes_of(store, QUEUE).ready == 2)
        rows = claim(store, 2)
        assert [(row.payload, row.attempts) for row in rows] == [('"a"', 1), ('"b"', 1)]

    @pytest.mark.parametrize("verb", ["claim", "pop"])
    def test_cancelled_before_it_saw_what_it_got_it_gives_that_back(self, store: Store, q: Queue, verb: str) -> None:
        async def main() -> None:
            wait = asyncio.create_task(q.areserve(wait=LONG) if verb == "claim" else q.apop(wait=LONG))
            await asyncio.sleep(0.3)
            store.push([new_job('"a"')])
            until(lambda: sizes_of(store, QUEUE).ready == 0)  # all the while the event loop stands still
            time.sleep(0.1)
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait

        asyncio.run(main())
        until(lambda: sizes_of(store, QUEUE).ready == 1)
        assert [row.attempts for row in claim(store)] == [1]


class Slow:
    """A store whose answers to a verb wait for `go_on`, after the first ones."""

    def __init__(self, store: Store, verb: str, after: int) -> None:
        self._store, self._verb, self._after = store, verb, after
        self.calls = 0
        self.under_way, self.go_on = threading.Event(), threading.Event()
        self.done = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._slowly(found) if name == self._verb else found

    def _slowly(self, verb: Callable[[Claim], Any]) -> Callable[[Claim], Any]:
        def call(wish: Claim) -> Any:
            answer = verb(wish)
            self.calls += 1
            if answer if isinstance(answer, list) else answer.rows:
                self.under_way.set()
                self.go_on.wait(SOON)
                self.done = True
            return answer

        return call
