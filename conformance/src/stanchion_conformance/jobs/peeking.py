"""Looking at the jobs that claims take next, and emptying queues."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Job, JobState, Push, Queue, Stanchion, chain
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.jobs.search import MAX_PAGE
from stanchion.stores.records.jobs import JobRef
from stanchion_conformance.harness import QUEUE, StoreClock


class TestPeek:
    def test_in_the_order_of_claims(self, q: Queue, clock: StoreClock) -> None:
        q.push_many([Push("late", delay=100), "first", Push("high", priority=50), "second", Push("low", priority=-5)])
        wanted = ["high", "first", "second", "low"]
        assert [job.payload for job in q.peek(9)] == wanted
        assert [job.payload for job in q.peek()] == ["high"]
        assert {job.state for job in q.peek(2)} == {JobState.READY}
        assert [job.payload for job in q.reserve(9)] == wanted
        assert q.peek(9) == []
        clock.advance(101)
        assert [job.payload for job in q.peek(9)] == ["late"]

    def test_changes_nothing(self, app: Stanchion, q: Queue) -> None:
        app.queue("elsewhere").push("x")
        q.push("a")
        before = q.peek()[0]
        assert (before.attempts, before.id) == (0, q.peek()[0].id)
        assert [job.id for job in q.reserve()] == [before.id]

    def test_of_a_paused_queue(self, q: Queue) -> None:
        q.push("a")
        q.pause()
        assert [job.payload for job in q.peek()] == ["a"]

    @pytest.mark.parametrize("n", [0, -1, 1.5, "2", MAX_PAGE + 1])
    def test_of_a_wrong_number(self, q: Queue, n: int) -> None:
        with pytest.raises(InvalidInput):
            q.peek(n)


class TestClear:
    def test_deletes_what_has_not_begun(self, app: Stanchion, q: Queue) -> None:
        elsewhere = app.queue("elsewhere")
        elsewhere.push("x")
        app.semaphore("one", 1)
        q.push_many([Push("runs", limits=["one"], priority=9), Push("waits", limits=["one"], priority=8)])
        (running,) = q.reserve(2)
        q.push_many(["a", Push("b", delay=100), Push("c", key="k"), Push("d", order_key="o"), Push("e", order_key="o")])
        done = q.push("done", priority=20)
        assert (popped := q.pop()) is not None
        assert popped.id == done.id
        assert q.clear() == 6
        sizes = q.size()
        assert (sizes.total, sizes.running) == (1, 1)
        assert [job.id for job in q.history()] == [done.id]
        assert elsewhere.size().total == 1
        running.commit()
        assert not q.push("c", key="k").duplicate
        q.push("d", order_key="o")
        q.push("f", limits=["one"])
        assert [job.payload for job in q.reserve(9)] == ["c", "d", "f"]
        assert q.clear() == 0

    def test_many(self, q: Queue) -> None:
        q.push_many(range(1203))
        assert q.clear() == 1203
        assert q.size().total == 0

    def test_a_job_that_begins_meanwhile_stays(self, q: Queue) -> None:
        q.push_many([1, 2, 3])
        store: Any = context_of(q).store
        delete = store.delete

        def later(refs: list[JobRef]) -> Any:
            q.reserve()
            return delete(refs)

        store.delete = later
        try:
            assert q.clear() == 2
        finally:
            store.delete = delete
        assert q.size().running == 1

    def test_flows_end(self, app: Stanchion, q: Queue) -> None:
        @app.task(name="first", queue=QUEUE)
        def first() -> int:
            return 1

        @app.task(name="second", queue=QUEUE)
        def second(job: Job, value: int) -> int:
            return value + job.attempts

        flow = chain(first.s(), second.s()).enqueue()
        assert q.clear() == 2
        assert flow.state in ("cancelled", "failed")
        assert q.size().total == 0
