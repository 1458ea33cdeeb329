"""Waiting for work: woken by a push or by a due time, without busy waiting."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Any
from unittest import mock

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.stores.protocol import Listener, Store
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Pass, Passage
from stanchion.stores.records.queues import QueueStats, Stat
from stanchion_conformance.harness import QUEUE, StoreClock, all_at_once, claim, in_threads, new_job, payloads, sizes_of

LONG = 60.0
"""Seconds that no wait of these cases takes, unless its wake-up was lost."""

QUIET = 0.3
"""Seconds without a sign after which none is expected of what was done before."""

SOON = 45.0
"""Seconds within which a woken waiter is back, also on a slow machine."""


def seconds(act: Callable[[], Any]) -> float:
    """Return how long it took."""
    started = time.monotonic()
    act()
    return time.monotonic() - started


def soon(act: Callable[[], Any], delay: float = 0.05) -> Callable[[], None]:
    """Do it a little later, when a waiter already waits."""

    def later() -> None:
        time.sleep(delay)
        act()

    return later


def quiet(listener: Listener) -> bool:
    """Return whether the listener comes to rest: surplus signals may end a wait or two, not all."""
    return any(seconds(lambda: listener.wait(0.1)) >= 0.09 for _ in range(4))


class TestListener:
    def test_without_a_sign_the_wait_takes_its_time(self, store: Store) -> None:
        listener = store.listen([QUEUE])
        try:
            assert quiet(listener)
            assert not listener.wait(0.01)
        finally:
            listener.close()

    def test_wake_ends_the_wait(self, store: Store) -> None:
        listener = store.listen([QUEUE])
        try:
            with in_threads([soon(listener.wake)]):
                assert seconds(lambda: listener.wait(LONG)) < SOON
        finally:
            listener.close()

    def test_wake_before_the_wait_ends_the_next_one_only(self, store: Store) -> None:
        listener = store.listen([QUEUE])
        try:
            assert quiet(listener)
            listener.wake()
            assert seconds(lambda: listener.wait(LONG)) < SOON
            assert quiet(listener)
        finally:
            listener.close()

    def test_closes_twice(self, store: Store) -> None:
        listener = store.listen([QUEUE])
        listener.close()
        listener.close()


class TestPushSignal:
    """For stores whose pushes wake the waiters of other processes."""

    @pytest.fixture(autouse=True)
    def signals(self, store: Store) -> None:
        """Say so where this class is not for the store."""
        assert store.capabilities.push_wakeup, "it has no push signal: del TestPushSignal"

    def test_of_another_process_ends_the_wait(self, store: Store, other_store: Store) -> None:
        listener = store.listen([QUEUE])
        try:
            with in_threads([soon(lambda: other_store.push([new_job()]))]):
                assert listener.wait(LONG)
            assert len(claim(store)) == 1
        finally:
            listener.close()

    def test_between_claim_and_wait_is_not_lost(self, store: Store, other_store: Store) -> None:
        listener = store.listen([QUEUE])
        try:
            for _ in range(10):
                assert claim(store) == []
                other_store.push([new_job()])
                deadline = time.monotonic() + LONG
                while not (rows := claim(store)):
                    assert listener.wait(deadline - time.monotonic()), "the sign was lost"
                assert len(rows) == 1
        finally:
            listener.close()

    def test_of_a_busy_pusher_loses_no_waiter(self, store: Store, other_store: Store) -> None:
        jobs = 200
        listener = store.listen([QUEUE])

        def push() -> None:
            for _ in range(jobs):
                other_store.push([new_job()])

        try:
            got = 0
            with in_threads([push]):
                while got < jobs:
                    rows = claim(store, 10)
                    got += len(rows)
                    assert rows or listener.wait(LONG), f"stuck after {got} jobs"
        finally:
            listener.close()

    def test_reaches_every_listener(self, store: Store, other_store: Store) -> None:
        listeners = [store.listen([QUEUE]), store.listen(["elsewhere", QUEUE]), other_store.listen([QUEUE])]
        try:
            other_store.push([new_job()])
            assert [listener.wait(SOON) for listener in listeners] == [True] * 3
        finally:
            for listener in listeners:
                listener.close()

    @pytest.mark.parametrize("end", ["commit", "move", "pass", "division"])
    def test_of_a_place_that_is_free_again(self, store: Store, other_store: Store, end: str) -> None:
        store.configure(QUEUE, {"max_running": 1})
        store.push([new_job() for _ in range(2)])
        (row,) = claim(store, 2)
        ends: dict[str, Outcome] = {
            "commit": Commit(row.lease),
            "move": Move(row.lease, "other"),
            "pass": Pass(row.lease, (Passage("other"),), Commit(row.lease)),
            "division": Commit(row.lease, jobs=(new_job(queue="other"), new_job(queue="other"))),
        }
        with closing(other_store.listen([QUEUE])) as listener:
            while listener.wait(QUIET):  # what came before
                listener.signs()
            store.settle([ends[end]])
            assert listener.wait(LONG)
            assert len(claim(other_store, 2)) == 1

    def test_wakes_a_reserve_long_before_its_next_poll(self, store: Store, other_q: Queue) -> None:
        q = Stanchion(store=store, poll=LONG).queue(QUEUE)
        with in_threads([soon(lambda: other_q.push(1), 0.2)]):
            assert seconds(lambda: payloads(q.reserve(wait=LONG)) == [1]) < SOON

    def test_wakes_two_waiters_for_two_pushes(self, store: Store, other_store: Store, new_store: Any) -> None:
        queues = [Stanchion(store=one, poll=LONG).queue(QUEUE) for one in (store, other_store)]
        got: list[Any] = []
        started = time.monotonic()
        with in_threads([lambda q=q: got.extend(payloads(q.reserve(wait=LONG))) for q in queues]):  # type: ignore[misc]
            time.sleep(0.2)
            Stanchion(store=new_store()).queue(QUEUE).push_many([1, 2])
        assert sorted(got) == [1, 2]
        assert time.monotonic() - started < SOON


class TestWaiting:
    def test_is_over_when_a_job_comes(self, q: Queue, other_q: Queue) -> None:
        with in_threads([soon(lambda: other_q.push(1))]):
            (job,) = q.reserve(wait=LONG)
        assert job.payload == 1

    def test_pop_waits_too(self, q: Queue, other_q: Queue) -> None:
        with in_threads([soon(lambda: other_q.push(1))]):
            job = q.pop(wait=LONG)
        assert job is not None
        assert job.payload == 1

    def test_gives_up_in_time(self, q: Queue) -> None:
        assert 0.09 <= seconds(lambda: q.reserve(wait=0.1)) < SOON
        assert 0.09 <= seconds(lambda: q.pop(wait=0.1)) < SOON

    def test_no_wait_is_none(self, q: Queue) -> None:
        assert seconds(q.reserve) < SOON
        assert q.pop() is None

    def test_ends_when_a_scheduled_job_is_due(self, store: Store) -> None:
        q = Stanchion(store=store, poll=LONG).queue(QUEUE)
        started = time.monotonic()
        q.push(1, delay=0.3)
        (job,) = q.reserve(wait=LONG)
        assert 0.25 <= time.monotonic() - started < SOON
        assert job.pickup_delay is not None
        assert job.pickup_delay >= 0

    def test_ends_though_a_job_is_due_between_two_looks(self, store: Store, clock: StoreClock) -> None:
        app = Stanchion(store=store, poll=LONG)
        app.queue(QUEUE).push(1, delay=60)
        look = store.stats

        def late(queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
            clock.advance(61)
            return look(queues, fields)

        with mock.patch.object(store, "stats", late):
            assert seconds(lambda: app.queue(QUEUE).reserve(wait=LONG)) < SOON
        assert sizes_of(store, QUEUE).running == 1

    def test_ends_though_a_job_that_was_seen_before_is_due_between_two_looks(
        self, store: Store, clock: StoreClock
    ) -> None:
        app = Stanchion(store=store, poll=LONG)
        app.queue(QUEUE).push(1, delay=3600)
        look, looks = store.stats, iter(range(1))

        def late(queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
            if next(looks, None) is None:
                clock.advance(3601)
                return look(queues, fields)
            seen = look(queues, fields)
            app.queue(QUEUE).push(2, delay=7200)
            return seen

        with mock.patch.object(store, "stats", late):
            assert seconds(lambda: app.queue(QUEUE).reserve(wait=LONG)) < SOON
        assert sizes_of(store, QUEUE).running == 1

    def test_ends_when_a_moved_job_arrives(self, q: Queue, other_app: Stanchion) -> None:
        other_app.queue("before").push(1)
        (job,) = other_app.queue("before").reserve()
        with in_threads([soon(lambda: job.move(QUEUE))]):
            assert payloads(q.reserve(wait=LONG)) == [1]

    def test_ends_when_the_queue_is_resumed(self, q: Queue, other_q: Queue) -> None:
        q.push(1)
        q.pause()
        with in_threads([soon(other_q.resume)]):
            assert payloads(q.reserve(wait=LONG)) == [1]

    def test_ends_when_a_place_is_free(self, q: Queue, other_q: Queue) -> None:
        q.configure(max_running=1)
        q.push_many([1, 2])
        (job,) = other_q.reserve()
        with in_threads([soon(job.commit)]):
            assert payloads(q.reserve(wait=LONG)) == [2]

    def test_ends_when_the_rate_allows(self, q: Queue) -> None:
        q.configure(max_rate=5)
        q.push_many([1, 2])
        q.reserve()
        assert payloads(q.reserve(wait=LONG)) == [2]

    def test_ends_when_a_lease_runs_out(self, q: Queue, other_q: Queue) -> None:
        q.push(1)
        other_q.reserve(lease=0.2)
        assert payloads(q.reserve(wait=LONG)) == [1]


class Counting:
    """A store that counts the calls of its verbs."""

    def __init__(self, store: Store) -> None:
        self._store, self.calls = store, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


class TestNoSpinning:
    @pytest.mark.parametrize(
        "nothing", ["empty", "scheduled", "paused", "all running", "rate used up", "only others' jobs"]
    )
    def test_a_waiter_with_nothing_to_do_looks_now_and_then(self, q: Queue, store: Store, nothing: str) -> None:
        match nothing:
            case "scheduled":
                q.push(1, delay=600)
            case "paused":
                q.push(1)
                q.pause()
            case "all running":
                q.configure(max_running=1)
                q.push_many([1, 2])
                q.reserve()
            case "rate used up":
                q.configure(max_rate=0.001)
                q.push_many([1, 2])
                q.reserve()
            case "only others' jobs":
                q.push(1)
                q.reserve()
        counting: Any = Counting(store)
        waiting = Stanchion(store=counting, poll=0.2).queue(QUEUE)
        assert waiting.reserve(wait=1.0) == []
        assert 2 <= counting.calls["claim"] <= 12

    def test_a_job_that_comes_due_is_not_waited_for_in_a_spin(self, q: Queue, store: Store) -> None:
        q.push_many([Push(1, delay=0.5)])
        counting: Any = Counting(store)
        waiting = Stanchion(store=counting, poll=LONG).queue(QUEUE)
        assert len(waiting.reserve(wait=LONG)) == 1
        assert counting.calls["claim"] <= 12

    def test_many_waiters_share_few_jobs(self, q: Queue, new_store: Any) -> None:
        q.push_many(range(3))
        got: list[Any] = []
        lock = threading.Lock()
        queues = [Stanchion(store=new_store()).queue(QUEUE) for _ in range(4)]

        def take(queue: Queue) -> None:
            jobs = queue.reserve(wait=0.3)
            with lock:
                got.extend(payloads(jobs))

        all_at_once([lambda queue=queue: take(queue) for queue in queues])  # type: ignore[misc]
        assert sorted(got) == [0, 1, 2]
