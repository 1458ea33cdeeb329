"""Tasks over a store: calls become jobs, outcomes become states, nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion import Bury, Cancel, Job, JobState, Retry, RetryAfter, Snooze, Stanchion
from stanchion.core.functions import EVENTS
from stanchion.errors import InvalidInput, JobCancelled, JobFailed, JobNotFound, ResultTimeout
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, SLACK, StoreClock, row_of

HALF_HOUR = 1800.0


class TestTasks:
    def test_a_call_becomes_a_job_and_its_value_the_result(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="add", priority=7)
        def add(one: int, two: int = 0) -> int:
            return one + two

        handles = [add.enqueue(1, two=2), *add.enqueue_many([(3, 4), {"one": 5}]), app.enqueue("add", 6)]
        assert {handle.job().priority for handle in handles} == {7}
        assert app.drain() == 4
        assert [handle.result(timeout=60) for handle in handles] == [3, 7, 5, 6]
        assert handles[0].state is JobState.DONE

    def test_calls_for_flows_are_enqueued_together(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="add")
        def add(one: int, two: int = 0) -> int:
            return one + two

        @app.task(queue=QUEUE, name="other")
        def other(one: int) -> int:
            return one

        handles = add.enqueue_many(add.si(n, two=1) for n in range(3))
        with pytest.raises(InvalidInput, match=r"other\(1\) is no call of add"):
            add.enqueue_many([add.s(1), other.s(1)])
        app.drain()
        assert [handle.result(timeout=60) for handle in handles] == [1, 2, 3]

    def test_the_running_job_is_at_hand(self, app: Stanchion, store: Store) -> None:
        seen: list[Any] = []

        @app.task(queue=QUEUE, name="look")
        def look(what: str, job: Job) -> None:
            job.progress(0.5)
            seen.append((what, job.id, job.attempt, job.tenant, row_of(store, job.id).progress))

        handle = look.using(tenant="acme").enqueue("here")  # type: ignore[call-arg]
        app.drain()
        assert seen == [("here", handle.id, 1, "acme", 0.5)]

    def test_an_async_task(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="later")
        async def later(value: int) -> int:
            return value + 1

        handle = later.enqueue(1)
        app.drain()
        assert handle.result(timeout=60) == 2

    def test_runs_in_the_order_of_the_queue(self, app: Stanchion) -> None:
        ran: list[str] = []

        @app.task(queue=QUEUE, name="note")
        def note(name: str) -> None:
            ran.append(name)

        note.enqueue("first")
        note.using(priority=10).enqueue("urgent")
        note.enqueue("second")
        note.using(delay=60).enqueue("scheduled")
        app.drain()
        assert ran == ["urgent", "first", "second"]

    @pytest.mark.parametrize("by", ["return", "raise"])
    @pytest.mark.parametrize(
        ("outcome", "state", "attempts", "failures"),
        [
            (Snooze(HALF_HOUR), JobState.SCHEDULED, 0, 0),
            (RetryAfter(HALF_HOUR), JobState.SCHEDULED, 1, 1),
            (Cancel("not needed"), JobState.CANCELLED, 1, 0),
            (Bury("hopeless"), JobState.DEAD, 1, 1),
        ],
        ids=["snooze", "retry after", "cancel", "bury"],
    )
    def test_outcomes_returned_or_raised(
        self,
        app: Stanchion,
        store: Store,
        by: str,
        outcome: Any,
        state: JobState,
        attempts: int,
        failures: int,
    ) -> None:
        @app.task(queue=QUEUE, name="decide")
        def decide() -> Any:
            if by == "raise":
                raise outcome
            return outcome

        handle = decide.enqueue()
        before = store.now()
        app.drain()
        job = handle.job()
        assert (job.state, job.attempts, job.failures) == (state, attempts, failures)
        if state is JobState.SCHEDULED:
            assert 0 <= (row_of(store, job.id).run_at - before) / 1e6 - HALF_HOUR <= SLACK
        else:
            assert outcome.reason in job.errors[-1]["error"]

    def test_snooze_never_uses_up_the_attempts(self, app: Stanchion, clock: StoreClock) -> None:
        attempts: list[int] = []

        @app.task(queue=QUEUE, name="wait", max_attempts=2)
        def wait(job: Job) -> Any:
            attempts.append(job.attempt)
            return Snooze(60) if len(attempts) < 5 else "at last"

        handle = wait.enqueue()
        for _ in range(5):
            app.drain()
            clock.advance(61)
        assert attempts == [1] * 5
        assert handle.result(timeout=60) == "at last"

    def test_a_failure_is_retried_by_the_policy_until_it_is_dead(
        self, app: Stanchion, store: Store, clock: StoreClock
    ) -> None:
        @app.task(queue=QUEUE, name="fail", retry=Retry.linear(100, jitter=0, max_attempts=3))
        def fail(job: Job) -> None:
            raise ValueError(f"attempt {job.attempt}")

        handle = fail.enqueue()
        for delay in (100, 200):
            before = store.now()
            app.drain()
            assert handle.state is JobState.SCHEDULED
            assert 0 <= (row_of(store, handle.id).run_at - before) / 1e6 - delay <= SLACK
            clock.advance(delay + 1)
        app.drain()
        job = handle.job()
        assert (job.state, job.attempts, job.failures) == (JobState.DEAD, 3, 3)
        assert [entry["error"] for entry in job.errors] == [f"ValueError: attempt {n}" for n in (1, 2, 3)]
        with pytest.raises(JobFailed, match="attempt 3"):
            handle.result(timeout=60)

    def test_an_unknown_task_is_not_lost(self, app: Stanchion, other_app: Stanchion) -> None:
        handle = other_app.using("gone.task", queue=QUEUE).enqueue(1)
        app.queue(QUEUE).configure()
        app.drain([QUEUE])
        job = handle.job()
        assert job.state is JobState.SCHEDULED
        assert "gone.task" in job.errors[-1]["error"]
        ran: list[int] = []
        app.task(queue=QUEUE, name="gone.task")(ran.append)
        app.retry_job(job.id)
        app.drain()
        assert ran == [1]

    def test_nor_are_arguments_that_no_longer_fit(self, app: Stanchion, other_app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="changed")
        def changed(one: int) -> int:
            return one

        handles = [
            other_app.using("changed", queue=QUEUE).enqueue(1, 2),
            other_app.using("changed", queue=QUEUE).enqueue(two=2),
            other_app.using("changed", queue=QUEUE).enqueue(),
        ]
        app.drain()
        assert {handle.state for handle in handles} == {JobState.DEAD}
        assert all(handle.job().errors for handle in handles)

    def test_a_result_that_json_cannot_hold_ends_dead(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="bad")
        def bad() -> object:
            return object()

        handle = bad.enqueue()
        app.drain()
        assert handle.state is JobState.DEAD
        assert "JSON" in handle.job().errors[-1]["error"]

    def test_a_task_may_settle_its_job_itself(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="mover")
        def mover(job: Job) -> None:
            job.move("next")  # type: ignore[attr-defined]

        handle = mover.enqueue()
        app.drain([QUEUE])
        assert handle.job().queue == "next"
        assert handle.state is JobState.READY

    def test_unique_tasks(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="once")
        def once(value: int) -> int:
            return value

        first = once.using(key="k").enqueue(1)
        again = once.using(key="k").enqueue(2)
        assert (again.id, again.duplicate, first.duplicate) == (first.id, True, False)
        app.drain()
        assert once.using(key="k").enqueue(3).id != first.id


class TestHandles:
    def test_wait_for_the_result(self, app: Stanchion, store: Store) -> None:
        handle = app.enqueue("other.task", 1)
        with pytest.raises(ResultTimeout):
            handle.result(timeout=0.05)
        (job,) = app.queue("default").reserve()
        job.commit({"value": None})
        assert handle.result(timeout=60) == {"value": None}
        assert Stanchion(store=store).enqueue("x").state is JobState.READY

    def test_cancel(self, app: Stanchion) -> None:
        handle = app.enqueue("other.task", 1)
        assert handle.cancel() is JobState.CANCELLED
        with pytest.raises(JobCancelled):
            handle.result(timeout=60)

    def test_know_when_nothing_is_kept(self, app: Stanchion) -> None:
        handle = app.enqueue("other.task", 1)
        app.queue("default").configure(history_ttl=0)
        app.queue("default").pop()
        with pytest.raises(JobNotFound):
            handle.result(timeout=60)


class TestEvents:
    def teller(self, story: list[str], event: str) -> Callable[..., None]:
        """Return a listener that adds to the story."""
        return lambda _job, *errors: story.append(" ".join([event, *map(str, errors)]))

    def test_tell_the_story_of_a_job(self, app: Stanchion, clock: StoreClock) -> None:
        story: list[str] = []
        for event in EVENTS:
            app.on(event)(self.teller(story, event))

        @app.task(queue=QUEUE, name="work", retry=Retry.constant(10, jitter=0, max_attempts=2))
        def work(good: bool) -> None:
            if not good:
                raise ValueError("no")

        work.enqueue(True)
        app.drain()
        assert story == ["pushed", "started", "done"]
        story.clear()
        work.enqueue(False)
        app.drain()
        assert story == ["pushed", "started", "failed no", "retrying no"]
        story.clear()
        clock.advance(11)
        app.drain()
        assert story == ["started", "failed no", "dead no"]

    def test_a_dead_letter_is_dead_too(self, app: Stanchion) -> None:
        story: list[str] = []
        for event in EVENTS[-2:]:
            app.on(event)(self.teller(story, event))
        app.queue(QUEUE).configure(dead_letter="letters")

        @app.task(queue=QUEUE, name="work", max_attempts=1)
        def work() -> None:
            raise ValueError("no")

        handle = work.enqueue()
        app.drain([QUEUE])
        assert story == ["dead no"]
        assert handle.job().queue == "letters"

    def test_a_duplicate_is_no_enqueue(self, app: Stanchion) -> None:
        heard: list[str] = []
        app.on("pushed")(lambda job: heard.append(job.id))
        first = app.queue(QUEUE).push(1, key="k")
        app.queue(QUEUE).push(1, key="k")
        assert heard == [first.id]

    def test_a_faulty_listener_harms_no_job(self, app: Stanchion) -> None:
        def faulty(*_: Any) -> None:
            raise RuntimeError("faulty")

        for event in EVENTS:
            app.on(event)(faulty)

        @app.task(queue=QUEUE, name="work")
        def work() -> int:
            return 1

        handle = work.enqueue()
        app.drain()
        assert handle.result(timeout=60) == 1
