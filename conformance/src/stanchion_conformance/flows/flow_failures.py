"""Flows that fail, or are cancelled: the states of their members, and the calls of on_failure."""

from __future__ import annotations

import pytest

from stanchion import FlowState, JobState, Stanchion, chain, group
from stanchion.core.ids import new_id
from stanchion.errors import (
    FlowCancelled,
    FlowFailed,
    FlowNotFound,
)
from stanchion_conformance.flows.flows import Work
from stanchion_conformance.harness import QUEUE


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
