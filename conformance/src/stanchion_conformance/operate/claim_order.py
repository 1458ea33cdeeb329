"""Which of its queues a worker claims from first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stanchion import Stanchion, Worker
from stanchion.errors import InvalidInput
from stanchion_conformance.harness import StoreClock

A, B, C = "a", "b 100%", "C'"
SECONDS = 60.0


class ThreeQueues:
    """What a worker of one thread has run: tasks named like their queues, one of which can block."""

    def __init__(self, app: Stanchion) -> None:
        self.app = app
        self.done: list[Any] = []
        self.seconds = 0.0
        """How long each job takes: jobs that take long are claimed one by one, others in batches."""
        self.begun, self.go_on = threading.Event(), threading.Event()
        for queue in (A, B, C):
            app.task(name=queue, queue=queue)(self._run)

    def _run(self, what: Any) -> None:
        self.done.append(what)
        time.sleep(self.seconds)
        if what == "block":
            self.begun.set()
            assert self.go_on.wait(SECONDS)

    def push(self, queue: str, *what: Any, **options: Any) -> None:
        self.app.using(queue, **options).enqueue_many([(one,) for one in what])

    def all_of(self, **options: Any) -> list[Any]:
        """Return what a worker runs until its queues are empty."""
        Worker(self.app, threads=1, until_empty=True, poll=0.1, **options).run()
        return self.done


@pytest.fixture
def three(app: Stanchion) -> ThreeQueues:
    return ThreeQueues(app)


@contextmanager
def working(app: Stanchion, **options: Any) -> Iterator[Worker]:
    """Run a worker in the block."""
    worker = Worker(app, **{"threads": 1, "poll": 0.1, **options})
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(grace=0)


def until(reached: Callable[[], Any]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


class TestOrderOfQueues:
    def test_the_highest_priority_of_all_first(self, three: ThreeQueues) -> None:
        three.push(A, *["low"] * 5, priority=-100)
        three.push(B, *["high"] * 5, priority=100)
        three.push(C, *["middle"] * 3)
        assert three.all_of() == ["high"] * 5 + ["middle"] * 3 + ["low"] * 5

    def test_a_queue_with_both_takes_no_precedence_for_its_rest(self, three: ThreeQueues) -> None:
        for queue, priorities in ((A, (9, 5, 1)), (B, (8, 5, 2)), (C, (7, 6, 0))):
            for priority in priorities:
                three.push(queue, priority, priority=priority)
        assert three.all_of() == [9, 8, 7, 6, 5, 5, 2, 1, 0]

    def test_a_batch_leaves_more_urgent_jobs_of_others_before_it(self, three: ThreeQueues) -> None:
        three.push(A, "first", priority=60)
        three.push(A, *["last"] * 40)
        three.push(B, *["then"] * 40, priority=50)
        Worker(three.app, threads=20, until_empty=True, poll=0.1).run()
        assert three.done[0] == "first"
        assert "last" not in three.done[:21]  # of 20 threads the last ones may be quicker

    def test_queues_with_equal_priorities_go_in_turn(self, three: ThreeQueues) -> None:
        three.seconds = 0.06
        three.push(A, *["a"] * 4)
        three.push(B, *["b"] * 4)
        done = three.all_of()
        assert sorted(done) == ["a"] * 4 + ["b"] * 4
        assert {"a", "b"} == set(done[:2]) == set(done[2:4])

    def test_strictly_as_named(self, three: ThreeQueues) -> None:
        three.push(A, "a", "a", priority=100)
        three.push(B, "b", "b", priority=-100)
        three.push(C, "c")
        assert three.all_of(queues=[C, B, A], order="strict") == ["c", "b", "b", "a", "a"]

    def test_in_turn_whatever_the_priority(self, three: ThreeQueues) -> None:
        three.seconds = 0.06
        three.push(A, *["a"] * 3, priority=100)
        three.push(B, *["b"] * 3, priority=-100)
        done = three.all_of(queues=[A, B], order="fair")
        assert {"a", "b"} == set(done[:2]) == set(done[2:4])

    @pytest.mark.parametrize("order", ["priority", "strict"])
    def test_an_urgent_job_is_next_amid_a_backlog(self, three: ThreeQueues, order: str) -> None:
        three.push(B, "block", *["late"] * 20)
        with working(three.app, queues=[A, B], order=order):
            assert three.begun.wait(SECONDS)
            three.push(A, "urgent", priority=90)
            three.go_on.set()
            until(lambda: len(three.done) == 22)
        assert three.done[:3] == ["block", "urgent", "late"]

    def test_a_scheduled_job_is_not_waited_for(self, three: ThreeQueues, clock: StoreClock) -> None:
        three.push(A, "later", priority=100, delay=1000)
        three.push(B, "now", priority=-5)
        assert three.all_of() == ["now"]
        clock.advance(2000)
        three.push(B, "then", priority=-5)
        assert three.all_of()[1:] == ["later", "then"]

    @pytest.mark.parametrize("limit", [{"paused": True}, {"max_running": 0}, {"max_rate": 1e-6}], ids=str)
    @pytest.mark.parametrize("order", ["priority", "strict"])
    def test_a_queue_that_may_not_run_holds_up_no_other(
        self, three: ThreeQueues, limit: dict[str, Any], order: str
    ) -> None:
        if limit == {"max_running": 0}:
            three.app.semaphore("none", 0)
            three.push(A, "held", priority=100, limits=["none"])
        else:
            three.app.queue(A).configure(**limit)
            three.push(A, "held", priority=100)
        three.push(B, *["b"] * 10)
        with working(three.app, queues=[A, B], order=order):
            until(lambda: three.done.count("b") == 10)
            three.app.queue(A).configure(paused=False, max_rate=None)
            three.app.semaphore("none", 5).resize(5)
            until(lambda: three.done.count("held") == 1)

    def test_a_bounded_queue_goes_on_before_the_others(self, three: ThreeQueues) -> None:
        three.app.queue(A).configure(max_running=1)
        three.seconds = 0.01
        three.push(A, *["a"] * 4, priority=100)
        three.push(B, *["b"] * 40)
        done = three.all_of()  # the end of a job may be stored only after the next claim
        assert (done[0], done.count("a")) == ("a", 4)
        assert max(place for place, one in enumerate(done) if one == "a") < 35

    def test_across_lanes(self, three: ThreeQueues) -> None:
        three.app.queue(A).configure(lanes=4, lanes_per_tenant=1)
        three.push(A, *["low"] * 6, priority=-1)
        three.push(A, "high", priority=1)
        three.push(B, *["middle"] * 3)
        assert three.all_of() == ["high"] + ["middle"] * 3 + ["low"] * 6

    def test_it_is_shown(self, three: ThreeQueues) -> None:
        for order in ("priority", "strict", "fair"):
            with working(three.app, order=order) as worker:
                until(lambda: worker.id in {row.id for row in three.app.workers()})
                assert [row.order for row in three.app.workers()] == [order]
        with pytest.raises(InvalidInput, match="priority or strict or fair, not 'random'"):
            Worker(three.app, order="random")  # type: ignore[arg-type]
