"""Flows that grow while they run: by calls that tasks return, and by members of event groups."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stanchion import FlowState, JobState, Stanchion, chain, group
from stanchion.errors import (
    FlowClosed,
    InvalidInput,
)
from stanchion.stores.protocol import Store
from stanchion_conformance.flows.flows import Work
from stanchion_conformance.harness import QUEUE, all_at_once, counts_of


class TestTailCalls:
    def test_leave_one_job_with_one_result(self, work: Work, app: Stanchion, store: Store) -> None:
        handle = work.tasks["factorial"].enqueue(100)
        assert app.drain() == 100
        assert int(handle.result(timeout=60)) == math.factorial(100)
        assert [job.id for job in app.find(queue=QUEUE)] == [handle.id]
        assert handle.job().attempts == 1
        assert handle.job().flow is None
        assert counts_of(store, QUEUE).pushed == 1

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("call", 5),
            ("chain", 15),
            ("group", [4, 5, 6]),
            ("barrier", None),
            ("nothing", []),
            ("deeper", [[4, 5], "relayed"]),
        ],
    )
    def test_a_job_goes_on_as_what_its_task_returned(self, work: Work, app: Stanchion, kind: str, value: Any) -> None:
        handle = work.tasks["go_on"].enqueue(kind, 4)
        app.drain()
        assert handle.result(timeout=60) == value

    @pytest.mark.parametrize(("kind", "value"), [("call", 5), ("chain", 15), ("group", [4, 5, 6]), ("barrier", None)])
    def test_in_its_place_in_a_flow(self, work: Work, kind: str, value: Any) -> None:
        both = group(work.add(1), work.tasks["go_on_behind"].s(kind, 4))
        assert work.run(chain(work.add(1), both, work.note())) == [2, value]

    def test_that_fail_fail_the_flow(self, work: Work) -> None:
        assert "it broke" in work.failed(group(work.go_on("fails", 1), work.add(1)).then(work.note())).error
        work.failed(chain(work.go_on("handled", 1), work.note()))
        assert work.seen == ["handled"]

    def test_that_fail_end_the_job_without_a_flow(self, work: Work, app: Stanchion) -> None:
        handle = work.tasks["go_on"].enqueue("fails", 1)
        app.drain()
        job = handle.job()
        assert job.state is JobState.CANCELLED
        assert job.flow is not None
        assert app.flow(job.flow).state is FlowState.FAILED

    def test_what_can_t_be_stored_buries_the_job(self, app: Stanchion) -> None:
        @app.task(name="odd", queue=QUEUE)
        def odd(value: Any = None) -> Any:  # noqa: ARG001 - it is of a type that JSON can't hold
            return odd.s(object())

        handle = odd.enqueue()
        app.drain()
        assert handle.state is JobState.DEAD
        assert "JSON" in handle.job().errors[-1]["error"]


class TestEventGroups:
    def test_call_back_once_when_closed_and_done(self, work: Work, app: Stanchion, other_app: Stanchion) -> None:
        others = Work(other_app)
        events = app.event_group("order-17", then=work.note())
        events.add(work.add(1), work.add(2))
        there = other_app.event_group("order-17", then=others.note())
        there.add(others.add(3))
        app.drain()
        assert events.state is FlowState.RUNNING
        there.add(chain(others.add(4), others.add(5)))
        there.close()
        assert events.state is FlowState.RUNNING
        app.drain()
        assert work.seen == [[1, 2, 3, 9]]
        assert events.result(timeout=60) == [1, 2, 3, 9]
        assert there.id == events.id

    def test_of_which_many_take_part_at_once(self, work: Work, app: Stanchion, other_app: Stanchion) -> None:
        Work(other_app)

        def take_part(mine: Stanchion) -> None:
            events = mine.event_group("rush", then=work.note())
            for number in range(5):
                events.add(work.add(number))

        all_at_once([lambda one=one: take_part(one) for one in [app, other_app] * 3])  # type: ignore[misc]
        app.event_group("rush").close()
        app.drain()
        (seen,) = work.seen
        assert sorted(seen) == sorted([*range(5)] * 6)

    def test_may_stay_empty_or_have_no_callback(self, work: Work, app: Stanchion) -> None:
        events = app.event_group("empty", then=work.note())
        events.close()
        app.drain()
        assert work.seen == [[]]
        alone = app.event_group("alone")
        alone.add(work.add(1))
        alone.close()
        app.drain()
        assert alone.result(timeout=60) == [1]

    def test_that_are_closed_take_no_more(self, work: Work, app: Stanchion) -> None:
        app.event_group("once", then=work.note()).close()
        app.drain()
        again = app.event_group("once", then=work.note())
        with pytest.raises(FlowClosed, match="new name"):
            again.add(work.add(1))
        again.close()
        assert app.drain() == 0
        assert work.seen == [[]]

    def test_that_failed_call_the_handler(self, work: Work, app: Stanchion) -> None:
        events = app.event_group("bad", then=work.note(), on_failure=work.note("handled"))
        events.add(work.fail(), work.fail())
        events.close()
        app.drain()
        assert (events.state, work.seen) == (FlowState.FAILED, ["handled"])

    def test_that_were_cancelled_take_no_more(self, work: Work, app: Stanchion) -> None:
        events = app.event_group("off", then=work.note())
        events.add(work.add(1))
        assert events.cancel() is FlowState.CANCELLED
        with pytest.raises(FlowClosed):
            events.add(work.add(1))
        assert app.drain() == 0

    def test_a_callback_can_t_come_later(self, work: Work, app: Stanchion) -> None:
        app.event_group("plain")
        with pytest.raises(InvalidInput, match="without `then`"):
            app.event_group("plain", then=work.note())
