"""Batch tasks: one call gets several jobs, and each ends by itself."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import (
    Bury,
    Cancel,
    FlowFailure,
    Job,
    JobState,
    Reservation,
    Retry,
    RetryAfter,
    Snooze,
    Stanchion,
    barrier,
    chain,
    current_job,
    group,
)
from stanchion.errors import InvalidInput, JobFailed, LeaseLost
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, state


class TestBatchTasks:
    def test_a_call_gets_the_due_jobs_in_order(self, app: Stanchion) -> None:
        calls: list[list[int]] = []

        @app.task(batch=3, queue=QUEUE, name="double")
        def double(numbers: list[int]) -> list[int]:
            calls.append(numbers)
            return [2 * number for number in numbers]

        handles = double.enqueue_many([(n,) for n in range(4)])
        urgent = double.using(priority=5).enqueue(9)
        later = double.using(delay=60).enqueue(5)
        assert app.drain() == 5
        assert calls == [[9, 0, 1], [2, 3]]
        assert [handle.result(timeout=60) for handle in (*handles, urgent)] == [0, 2, 4, 6, 18]
        assert later.state is JobState.SCHEDULED

    def test_a_call_without_results(self, app: Stanchion) -> None:
        @app.task(batch=10, queue=QUEUE, name="quiet")
        def quiet(numbers: list[int]) -> None:
            assert numbers == [1, 2]

        handles = quiet.enqueue_many([(1,), (2,)])
        app.drain()
        assert [handle.result(timeout=60) for handle in handles] == [None, None]

    def test_an_async_call(self, app: Stanchion) -> None:
        @app.task(batch=10, queue=QUEUE, name="later")
        async def later(numbers: list[int]) -> list[int]:
            return [number + 1 for number in numbers]

        handles = later.enqueue_many([(1,), (2,)])
        app.drain()
        assert [handle.result(timeout=60) for handle in handles] == [2, 3]

    def test_each_ends_by_what_is_returned_for_it(self, app: Stanchion, store: Store) -> None:
        @app.task(batch=10, queue=QUEUE, name="judge", retry=Retry.constant(30))
        def judge(verdicts: list[str]) -> list[str | BaseException]:
            ends: dict[str, BaseException] = {
                "fail": ValueError("no"),
                "snooze": Snooze(60),
                "again": RetryAfter(90),
                "cancel": Cancel("unwanted"),
                "bury": Bury("hopeless"),
            }
            return [ends.get(verdict, verdict) for verdict in verdicts]

        names = ("fail", "good", "snooze", "again", "cancel", "bury")
        handles = dict(zip(names, judge.enqueue_many([(name,) for name in names]), strict=True))
        assert app.drain() == 6
        rows = {name: row_of(store, handle.id) for name, handle in handles.items()}
        assert {name: (rows[name].attempts, rows[name].failures, handles[name].state) for name in names} == {
            "fail": (1, 1, JobState.SCHEDULED),
            "good": (1, 0, JobState.DONE),
            "snooze": (0, 0, JobState.SCHEDULED),
            "again": (1, 1, JobState.SCHEDULED),
            "cancel": (1, 0, JobState.CANCELLED),
            "bury": (1, 1, JobState.DEAD),
        }
        assert handles["good"].result(timeout=60) == "good"
        assert "ValueError: no" in (rows["fail"].errors or "")

    def test_each_ends_by_what_the_task_does_with_it(self, app: Stanchion, store: Store) -> None:
        @app.task(batch=10, queue=QUEUE, name="act", retry=Retry.constant(30))
        def act(jobs: list[Reservation], verbs: list[str]) -> None:
            for job, verb in zip(jobs, verbs, strict=True):
                match verb:
                    case "commit":
                        job.commit("by itself")
                    case "rollback":
                        job.rollback(error=ValueError("no"))
                    case "release":
                        job.release(60)
                    case "bury":
                        job.bury("hopeless")
                    case "abandon":
                        job.abandon("unwanted")
                    case "move":
                        job.move("elsewhere")
                if verb != "leave":
                    with pytest.raises(InvalidInput, match="has an outcome already"):
                        job.bury()
            assert row_of(store, jobs[0].id).state == JobState.RUNNING

        verbs = ("commit", "rollback", "release", "bury", "abandon", "move", "leave")
        handles = dict(zip(verbs, act.enqueue_many([(verb,) for verb in verbs]), strict=True))
        assert app.drain([QUEUE]) == 7
        assert {verb: (handle.state, row_of(store, handle.id).attempts) for verb, handle in handles.items()} == {
            "commit": (JobState.DONE, 1),
            "rollback": (JobState.SCHEDULED, 1),
            "release": (JobState.SCHEDULED, 0),
            "bury": (JobState.DEAD, 1),
            "abandon": (JobState.CANCELLED, 1),
            "move": (JobState.READY, 0),
            "leave": (JobState.DONE, 1),
        }
        assert handles["commit"].result(timeout=60) == "by itself"
        assert row_of(store, handles["move"].id).queue == "elsewhere"

    def test_the_failed_one_is_retried_alone(self, app: Stanchion, clock: StoreClock) -> None:
        calls: list[list[int]] = []

        @app.task(batch=10, queue=QUEUE, name="picky", retry=Retry.constant(5, jitter=0), max_attempts=2)
        def picky(numbers: list[int]) -> list[int | BaseException]:
            calls.append(numbers)
            return [ValueError("two") if number == 2 else number for number in numbers]

        handles = picky.enqueue_many([(n,) for n in range(4)])
        app.drain()
        clock.advance(6)
        app.drain()
        assert calls == [[0, 1, 2, 3], [2]]
        assert [handle.state for handle in handles] == [JobState.DONE] * 2 + [JobState.DEAD, JobState.DONE]
        with pytest.raises(JobFailed, match="ValueError: two"):
            handles[2].result(timeout=60)

    def test_an_error_fails_all_each_with_its_own_attempts(
        self, app: Stanchion, store: Store, clock: StoreClock
    ) -> None:
        @app.task(batch=10, queue=QUEUE, name="fails", retry=Retry.linear(100, jitter=0), max_attempts=3)
        def fails(numbers: list[int]) -> None:
            if numbers != [0]:
                raise ConnectionError("down")
            raise ConnectionError("down, too")

        first = fails.enqueue(0)
        app.drain()
        clock.advance(101)
        others = [fails.enqueue(1), fails.using(max_attempts=1).enqueue(2)]
        assert app.drain() == 3
        rows = [row_of(store, handle.id) for handle in (first, *others)]
        assert [(row.attempts, row.failures) for row in rows] == [(2, 2), (1, 1), (1, 1)]
        assert [handle.state for handle in (first, *others)] == [JobState.SCHEDULED] * 2 + [JobState.DEAD]
        assert rows[0].run_at - rows[1].run_at > 50_000_000

    def test_an_outcome_is_of_all(self, app: Stanchion, store: Store) -> None:
        @app.task(batch=10, queue=QUEUE, name="wait")
        def wait(numbers: list[int]) -> None:
            raise Snooze(30 * len(numbers))

        handles = wait.enqueue_many([(1,), (2,)])
        app.drain()
        assert [(handle.state, row_of(store, handle.id).attempts) for handle in handles] == [
            (JobState.SCHEDULED, 0)
        ] * 2

    @pytest.mark.parametrize("value", [[1], [1, 2, 3], 5, "ab", {"a": 1, "b": 2}])
    def test_results_that_are_not_one_for_each_fail_all(self, app: Stanchion, store: Store, value: Any) -> None:
        @app.task(batch=10, queue=QUEUE, name="wrong")
        def wrong(numbers: list[int]) -> Any:
            assert numbers == [1, 2]
            return value

        handles = [wrong.enqueue(1), wrong.enqueue(2)]
        app.drain()
        assert [handle.state for handle in handles] == [JobState.SCHEDULED] * 2
        assert "return a list with a result for each job" in (row_of(store, handles[0].id).errors or "")

    def test_a_result_that_does_not_fit_buries_its_job(self, app: Stanchion) -> None:
        @app.task(batch=10, queue=QUEUE, name="odd")
        def odd(numbers: list[int]) -> list[Any]:
            return [object() if number == 1 else number for number in numbers]

        handles = odd.enqueue_many([(0,), (1,), (2,)])
        app.drain()
        assert [handle.state for handle in handles] == [JobState.DONE, JobState.DEAD, JobState.DONE]

    def test_an_item_that_cannot_be_read_buries_its_job(self, app: Stanchion, store: Store) -> None:
        calls: list[list[int]] = []

        @app.task(batch=10, queue=QUEUE, name="read")
        def read(numbers: list[int]) -> None:
            calls.append(numbers)

        bad = new_job('{"args": [1, 2]}', task="read")
        handle = read.enqueue(1)
        store.push([bad])
        app.drain()
        assert calls == [[1]]
        assert handle.state is JobState.DONE
        assert state(store, bad.id) is JobState.DEAD
        assert "each job of a batch has one item" in (row_of(store, bad.id).errors or "")

    def test_a_lost_lease_loses_one_outcome(self, app: Stanchion, store: Store) -> None:
        @app.task(batch=10, queue=QUEUE, name="slow")
        def slow(jobs: list[Reservation], numbers: list[int]) -> list[int]:
            stolen = jobs[numbers.index(1)]
            taken = app.reservation(stolen.id, stolen.token)
            taken.release()
            (row,) = claim(store, 1)
            assert row.id == stolen.id
            with pytest.raises(LeaseLost):
                taken.commit()
            return numbers

        handles = slow.enqueue_many([(n,) for n in range(3)])
        app.drain()
        assert [handle.state for handle in handles] == [JobState.DONE, JobState.RUNNING, JobState.DONE]
        assert counts_of(store, QUEUE).committed == 2

    def test_a_late_outcome_is_refused(self, app: Stanchion) -> None:
        kept: list[Reservation] = []

        @app.task(batch=10, queue=QUEUE, name="keep")
        def keep(jobs: list[Reservation], numbers: list[int]) -> None:
            kept.extend(jobs[: len(numbers)])

        handles = keep.enqueue_many([(1,), (2,)])
        app.drain()
        with pytest.raises(LeaseLost):
            kept[0].bury("too late")
        assert handles[0].state is JobState.DONE

    def test_settled_by_one_call(self, app: Stanchion) -> None:
        @app.task(batch=10, queue=QUEUE, name="together")
        def together(jobs: list[Reservation], numbers: list[int]) -> None:
            app.settle([job.committed(number) for job, number in zip(jobs, numbers, strict=True)])
            raise ValueError("after the end")

        handles = together.enqueue_many([(1,), (2,)])
        app.drain()
        assert [handle.result(timeout=60) for handle in handles] == [1, 2]

    def test_the_jobs_are_at_hand(self, app: Stanchion, store: Store) -> None:
        seen: list[Any] = []

        @app.task(batch=10, queue=QUEUE, name="look")
        def look(jobs: list[Job], words: list[str]) -> None:
            for job, word in zip(jobs, words, strict=True):
                job.progress(0.5)
                seen.append((word, job.id, job.attempt, job.tenant, row_of(store, job.id).progress))
            seen.append(current_job())

        handles = [look.using(tenant="acme").enqueue("a"), look.using(tenant="evil").enqueue("b")]
        app.drain()
        assert seen == [("a", handles[0].id, 1, "acme", 0.5), ("b", handles[1].id, 1, "evil", 0.5), None]

    def test_other_jobs_of_the_queue_run_between(self, app: Stanchion) -> None:
        ran: list[Any] = []

        @app.task(batch=10, queue=QUEUE, name="many")
        def many(numbers: list[int]) -> None:
            ran.append(numbers)

        @app.task(queue=QUEUE, name="one")
        def one(number: int) -> None:
            ran.append(number)

        many.enqueue_many([(1,), (2,)])
        one.enqueue(3)
        many.enqueue(4)
        assert app.drain() == 4
        assert ran == [[1, 2], 3, [4]]


class TestLimitsOfBatches:
    def test_each_job_holds_its_slot(self, app: Stanchion) -> None:
        calls: list[int] = []
        app.semaphore("smtp", capacity=2)

        @app.task(batch=10, queue=QUEUE, name="send", limits=["smtp"])
        def send(numbers: list[int]) -> None:
            calls.append(len(numbers))
            assert len(app.semaphore("smtp").holders()) == len(numbers)

        send.enqueue_many([(n,) for n in range(5)])
        assert app.drain() == 5
        assert max(calls) <= 2

    def test_at_most_max_running_jobs(self, app: Stanchion) -> None:
        calls: list[int] = []
        app.queue(QUEUE, max_running=3)

        @app.task(batch=10, queue=QUEUE, name="few")
        def few(numbers: list[int]) -> None:
            calls.append(len(numbers))

        few.enqueue_many([(n,) for n in range(7)])
        assert app.drain() == 7
        assert calls == [3, 3, 1]

    def test_one_of_each_order_key(self, app: Stanchion) -> None:
        calls: list[list[str]] = []

        @app.task(batch=10, queue=QUEUE, name="ordered")
        def ordered(names: list[str]) -> None:
            calls.append(names)

        for name in ("a1", "a2", "b1", "b2"):
            ordered.using(order_key=name[0]).enqueue(name)
        assert app.drain() == 4
        assert [sorted(names) for names in calls] == [["a1", "b1"], ["a2", "b2"]]

    def test_tenants_of_all_lanes_share_a_batch(self, app: Stanchion) -> None:
        calls: list[list[int]] = []
        app.queue(QUEUE, lanes=4, lanes_per_tenant=1)

        @app.task(batch=10, queue=QUEUE, name="shared")
        def shared(numbers: list[int]) -> None:
            calls.append(numbers)

        for n in range(6):
            shared.using(tenant=f"t{n % 3}").enqueue(n)
        assert app.drain() == 6
        assert [sorted(numbers) for numbers in calls] == [[0, 1, 2, 3, 4, 5]]


class TestBatchesInFlows:
    def test_members_of_a_group(self, app: Stanchion) -> None:
        @app.task(batch=10, queue=QUEUE, name="square")
        def square(numbers: list[int]) -> list[int]:
            return [number**2 for number in numbers]

        @app.task(queue=QUEUE, name="total")
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        flow = group(square.s(n) for n in range(4)).then(total.s()).enqueue()
        app.drain()
        assert flow.result(timeout=60) == 14

    def test_a_part_gets_the_value_before(self, app: Stanchion) -> None:
        @app.task(batch=10, queue=QUEUE, name="more")
        def more(numbers: list[int]) -> list[int]:
            return [number + 1 for number in numbers]

        handles = [chain(more.s(n), more.s(), more.s()).enqueue() for n in range(3)]
        app.drain()
        assert [handle.result(timeout=60) for handle in handles] == [3, 4, 5]

    def test_a_job_goes_on_as_a_call(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="tail")
        def tail(number: int) -> int:
            return 10 * number

        @app.task(batch=10, queue=QUEUE, name="head")
        def head(numbers: list[int]) -> list[Any]:
            return [tail.s(number) if number % 2 else number for number in numbers]

        handles = head.enqueue_many([(n,) for n in range(4)])
        app.drain()
        assert [handle.result(timeout=60) for handle in handles] == [0, 10, 2, 30]

    def test_one_failed_member_fails_its_flow_only(self, app: Stanchion) -> None:
        failures: list[str] = []

        @app.task(batch=10, queue=QUEUE, name="strict", max_attempts=1)
        def strict(numbers: list[int]) -> list[int | BaseException]:
            return [ValueError("odd") if number % 2 else number for number in numbers]

        @app.task(queue=QUEUE, name="alarm")
        def alarm(failure: FlowFailure) -> None:
            failures.append(str(failure.error))

        good = barrier(strict.s(n) for n in (0, 2)).enqueue()
        bad = barrier(strict.s(n) for n in (1, 4)).on_failure(alarm.s()).enqueue()
        app.drain()
        assert (good.state, bad.state) == ("done", "failed")
        assert len(failures) == 1
