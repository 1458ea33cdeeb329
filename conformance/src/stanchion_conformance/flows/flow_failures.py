"""Flows that fail, or are cancelled: the states of their members, and the calls of on_failure."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import FlowFailure, FlowState, Job, JobState, Push, Retry, Stanchion, chain, group
from stanchion.core.ids import new_id
from stanchion.errors import (
    FlowCancelled,
    FlowFailed,
    FlowNotFound,
)
from stanchion_conformance.flows.flows import Work
from stanchion_conformance.harness import QUEUE, StoreClock


class TestFailure:
    def test_ends_the_flow(self, work: Work, app: Stanchion) -> None:
        flow = chain(work.add(1), work.fail(), work.add(1), work.note()).enqueue()
        app.drain()
        states = [job.state for job in flow.members()]
        assert states == [JobState.DONE, JobState.DEAD, JobState.CANCELLED, JobState.CANCELLED]
        with pytest.raises(FlowFailed, match=r"fail \(job .*ValueError: it broke") as caught:
            flow.result(timeout=60)
        assert caught.value.job_id == list(flow.members())[1].id
        assert work.seen == []

    def test_of_one_lets_the_others_go_on(self, work: Work, app: Stanchion) -> None:
        flow = group(work.fail(), work.add(1), chain(work.add(2), work.add(3))).then(work.note()).enqueue()
        app.drain()
        assert flow.state is FlowState.FAILED
        assert [job.result for job in flow.members() if job.state is JobState.DONE] == [1, 2, 5]
        assert work.seen == []

    def test_brings_the_handler_once(self, work: Work, app: Stanchion) -> None:
        flow = group(work.fail() for _ in range(5)).then(work.note()).on_failure(work.note("handle", 7)).enqueue()
        app.drain()
        assert work.seen == [("handle", 7)]
        assert flow.state is FlowState.FAILED
        assert [job.task for job in flow.members()].count("note") == 2

    def test_of_a_part_fails_what_it_is_in(self, work: Work) -> None:
        inner = chain(work.fail().on_failure(work.note("call")), work.add(1)).on_failure(work.note("inner"))
        error = work.failed(group(chain(inner, work.add(1)), work.add(1)).on_failure(work.note("outer")))
        assert sorted(work.seen) == ["call", "inner", "outer"]
        assert "it broke" in error.error

    def test_brings_no_handler_without_one(self, work: Work) -> None:
        assert work.run(chain(work.add(1).on_failure(work.note("no")), work.add(1)).on_failure(work.note("no"))) == 2
        assert work.seen == []

    def test_by_a_cancelled_member(self, work: Work, app: Stanchion) -> None:
        flow = chain(work.add(1), work.add(1)).on_failure(work.note("handled")).enqueue()
        app.cancel(next(flow.members()).id)
        app.drain()
        with pytest.raises(FlowFailed, match="cancelled"):
            flow.result(timeout=60)
        assert work.seen == ["handled"]

    def test_where_no_history_tells_of_it(self, work: Work, app: Stanchion) -> None:
        app.queue(QUEUE).configure(history_ttl=0)
        assert "not kept" in work.failed(chain(work.fail(), work.add(1))).error

    def test_with_a_dead_letter_queue(self, work: Work, app: Stanchion) -> None:
        app.queue(QUEUE).configure(dead_letter="letters")
        error = work.failed(chain(work.add(1), work.fail(), work.note()).on_failure(work.note("handled")))
        assert "it broke" in error.error
        assert work.seen == ["handled"]
        work.broken = False
        assert error.job_id is not None
        app.retry_job(error.job_id)
        app.drain([QUEUE])
        assert work.seen == ["handled"]

    def test_a_retry_afterwards_mends_the_job_alone(self, work: Work, app: Stanchion) -> None:
        flow = chain(work.fail(), work.note()).on_failure(work.note("handled")).enqueue()
        app.drain()
        failed, follower, _ = flow.members()
        work.broken = False
        app.retry_job(failed.id)
        app.drain()
        assert flow.state is FlowState.FAILED
        assert work.seen == ["handled"]
        # An operator may still finish it, step by step.
        app.retry_job(follower.id)
        app.drain()
        assert work.seen == ["handled", "repaired"]

    def test_who_is_retried_before_its_time_is_not_run_without_its_value(self, work: Work, app: Stanchion) -> None:
        flow = chain(work.fail(), work.note()).enqueue()
        app.drain()
        follower = list(flow.members())[1]
        app.retry_job(follower.id)
        app.drain()
        dead = app.get(follower.id)
        assert dead is not None
        assert dead.state is JobState.DEAD
        assert "retry" in dead.errors[-1]["error"]
        assert work.seen == []


class TestFailureOfAPart:
    """The call of on_failure gets the member at fault."""

    @pytest.fixture
    def told(self, app: Stanchion) -> list[Any]:
        """What the handlers below were given."""
        seen = list[Any]()

        @app.task(name="mend", queue=QUEUE)
        def mend(what: str, failure: FlowFailure | None, job: Job) -> None:
            seen.append((what, failure, job.attempt))

        @app.task(name="begin", queue=QUEUE, max_attempts=2, retry=Retry.constant(1, jitter=0))
        def begin(failure: FlowFailure, what: str, *, job: Job) -> None:
            seen.append((what, failure, job.attempt))
            if job.attempt == 1:
                raise ValueError("once more")

        return seen

    def test_of_a_job(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        mend = app.tasks["mend"].s
        flow = chain(work.add(1), work.fail(), work.add(1)).on_failure(mend("chain")).enqueue()
        app.drain()
        failed = list(flow.members())[1]
        assert told == [("chain", FlowFailure("fail", failed.id, "ValueError: it broke"), 1)]

    def test_of_the_part_alone(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        mend, fail = app.tasks["mend"].s, app.tasks["fail"]
        one = chain(work.fail(), work.add(1)).on_failure(mend("one"))
        other = chain(fail.using(priority=9).s("x"), work.note()).on_failure(mend("other"))
        good = chain(work.add(1), work.add(2)).on_failure(mend("never"))
        parts = group([work.add(1), one, good, other])
        flow = chain(parts, work.note().on_failure(mend("not begun"))).on_failure(mend("all")).enqueue()
        app.drain()
        failed = {tuple(job.payload["args"]): job.id for job in flow.members() if job.task == "fail"}
        of = {what: failure.job for what, failure, _ in told}
        assert (of.pop("one"), of.pop("other")) == (failed[()], failed[("x",)])
        assert of.keys() == {"not begun", "all"}
        assert set(of.values()) <= set(failed.values()), "the cause, not the jobs that were cancelled by it"
        assert {(failure.task, failure.error) for _, failure, _ in told} == {("fail", "ValueError: it broke")}
        assert len(told) == 4

    def test_is_the_same_at_each_attempt(self, work: Work, app: Stanchion, clock: StoreClock, told: list[Any]) -> None:
        parts = [app.tasks["fail"].using(delay=0.5).s("later"), work.fail()]
        flow = group(parts).on_failure(app.tasks["begin"].s("it")).enqueue()
        app.drain()
        clock.advance(2)
        app.drain()
        (_, first, one), (what, second, two) = told
        assert (what, first, one, two) == ("it", second, 1, 2)
        assert {job.state for job in flow.members() if job.task == "fail"} == {JobState.DEAD}
        assert first.job == list(flow.members())[1].id, "the one that failed first"

    def test_of_a_cancelled_member(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        flow = chain(work.add(1), work.add(1)).on_failure(app.tasks["mend"].s("it")).enqueue()
        first = next(flow.members())
        app.cancel(first.id)
        app.drain()
        assert told == [("it", FlowFailure("add", first.id, "cancelled"), 1)]

    def test_of_a_continuation(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        mend, fail = app.tasks["mend"].s, app.tasks["fail"]
        other = fail.using(priority=9).s("x").on_failure(mend("other"))
        flow = group([other, work.go_on("fails", 1).on_failure(mend("continued"))]).enqueue()
        app.drain()
        failed = {tuple(job.payload["args"]): job.id for job in flow.members() if job.task == "fail"}
        assert {what: failure.job for what, failure, _ in told} == {"other": failed["x",], "continued": failed[()]}

    def test_with_a_dead_letter_queue(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        app.queue(QUEUE).configure(dead_letter="letters")
        chain(work.fail(), work.add(1)).on_failure(app.tasks["mend"].s("it")).enqueue()
        app.drain([QUEUE])
        assert [(failure.task, failure.error) for _, failure, _ in told] == [("fail", "ValueError: it broke")]

    def test_where_no_history_tells_of_it(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        app.queue(QUEUE).configure(history_ttl=0)
        chain(work.fail(), work.add(1)).on_failure(app.tasks["mend"].s("it")).enqueue()
        app.drain()
        assert [(failure.task, failure.error) for _, failure, _ in told] == [(None, "dead; its error was not kept")]

    def test_is_bounded(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        @app.task(name="shout", queue=QUEUE, max_attempts=1)
        def shout() -> None:
            raise ValueError("x" * 1_000_000)

        chain(shout.s(), work.add(1)).on_failure(app.tasks["mend"].s("it")).enqueue()
        app.drain()
        assert len(told[0][1].error) < 20_000

    def test_of_payloads(self, work: Work, app: Stanchion) -> None:
        form = chain(Push({"a": 1}, queue="forms"), work.add(1)).on_failure(Push("call", queue="calls"))
        flow = app.enqueue_flow(form)
        (job,) = app.queue("forms").reserve()
        job.bury("torn")
        (call,) = app.queue("calls").reserve()
        assert call.payload == "call"
        assert flow.failure_for(call) == FlowFailure(None, job.id, "torn")
        assert flow.failure_for(job) is None

    def test_is_none_for_other_calls(self, work: Work, app: Stanchion, told: list[Any]) -> None:
        app.tasks["mend"].enqueue("alone")
        chain(work.add(1), app.tasks["mend"].s()).enqueue()
        app.drain()
        assert sorted(told, key=str) == [("alone", None, 1), (1, None, 1)]


class TestCancelAFlow:
    def test_ends_all_of_it(self, work: Work, app: Stanchion) -> None:
        flow = chain(work.add(1), group(work.add(1), work.add(2)), work.note()).on_failure(work.note("no")).enqueue()
        app.queue(QUEUE).reserve()[0].commit(1)
        assert flow.cancel() is FlowState.CANCELLED
        assert app.drain() == 0
        assert [job.state for job in flow.members()] == [JobState.DONE, *[JobState.CANCELLED] * 3]
        with pytest.raises(FlowCancelled):
            flow.result(timeout=60)
        assert work.seen == []
        assert flow.cancel() is FlowState.CANCELLED

    def test_asks_what_runs_to_stop(self, work: Work, app: Stanchion, other_app: Stanchion) -> None:
        flow = work.add(1).enqueue()
        (job,) = app.queue(QUEUE).reserve()
        assert other_app.flow(flow.id).cancel() is FlowState.CANCELLED
        assert job.cancelled

    def test_after_its_end_changes_nothing(self, work: Work, app: Stanchion) -> None:
        flow = work.add(1).enqueue()
        app.drain()
        assert flow.cancel() is FlowState.DONE
        assert flow.result(timeout=60) == 1

    def test_of_an_unknown_one(self, app: Stanchion) -> None:
        flow = app.flow(new_id())
        for ask in (flow.cancel, flow.graph, lambda: flow.state, lambda: flow.result(timeout=60)):
            with pytest.raises(FlowNotFound):
                ask()
