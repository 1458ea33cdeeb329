"""The tenant as the default of the order key."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Send, Stanchion, chain
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion_conformance.harness import StoreClock, payloads


class TestOrderedByTenant:
    def test_jobs_of_a_tenant_run_in_order(self, q: Queue, clock: StoreClock) -> None:
        q.configure(ordered_by="tenant")
        q.push_many([Push("a1", tenant="a"), Push("a2", tenant="a"), Push("b1", tenant="b"), Push("free")])
        got = {job.payload: job for job in q.reserve(9, lease=1000)}
        assert set(got) == {"a1", "b1", "free"}
        assert got["a1"].order_key == "a"
        assert got["free"].order_key is None
        got["a1"].rollback(delay=60)
        assert q.reserve(9) == []
        clock.advance(61)
        q.reserve()[0].commit()
        assert payloads(q.reserve(9)) == ["a2"]

    def test_an_order_key_of_its_own_counts(self, q: Queue) -> None:
        q.configure(ordered_by="tenant")
        q.push_many([Push(n, tenant="a", order_key=f"k{n}") for n in range(3)])
        assert len(q.reserve(9)) == 3

    @pytest.mark.parametrize("tenant", ["Ä 🐘", "it's 100 %", "A", "a "])
    def test_of_strange_names(self, q: Queue, tenant: str) -> None:
        q.configure(ordered_by="tenant")
        q.push_many([Push(n, tenant=tenant) for n in range(3)])
        q.push("other", tenant="a")
        assert sorted(map(str, payloads(q.reserve(9)))) == ["0", "other"]

    def test_jobs_that_move_in_get_one_too(self, app: Stanchion, q: Queue) -> None:
        app.queue("target").configure(ordered_by="tenant")
        q.push_many([Push(n, tenant="a") for n in range(3)])
        for job in q.reserve(3):
            job.move("target")
        (first,) = app.queue("target").reserve(9)
        assert first.order_key == "a"

    def test_items_of_pipelines_get_one_too(self, app: Stanchion) -> None:
        for queue in ("etl.first", "etl.second", "etl.third"):
            app.queue(queue).configure(ordered_by="tenant")
        etl = app.pipeline("etl")

        @etl.station("first", to="second")
        def first(item: Any) -> Any:
            return Send("second", item)

        @etl.station("second", to="third")
        def second(_item: Any) -> Any:
            return [Send("third", n) for n in range(2)]

        @etl.station("third")
        def third(_item: Any) -> None: ...

        etl.push(1, station="first", tenant="a")
        app.drain(["etl.first", "etl.second"])
        assert [job.order_key for job in app.queue("etl.third").find()] == ["a", "a"]
        assert len(app.queue("etl.third").reserve(2)) == 1

    def test_steps_of_flows_get_one_too(self, app: Stanchion) -> None:
        app.queue("target").configure(ordered_by="tenant")

        @app.task(queue="target", tenant="a", name="step")
        def step(*_values: Any) -> None: ...

        chain(step.s(), step.s()).enqueue()
        assert [job.order_key for job in app.queue("target").find()] == ["a", "a"]
        app.drain(["target"])
        assert [job.state for job in app.queue("target").find()] == [JobState.DONE] * 2

    def test_jobs_of_on_failure_get_one_too(self, app: Stanchion) -> None:
        app.queue("target").configure(ordered_by="tenant")

        @app.task(name="fails", max_attempts=1)
        def fails() -> None:
            raise ValueError

        @app.task(queue="target", tenant="a", name="mend")
        def mend(*_values: Any) -> None: ...

        @app.task(name="begins")
        def begins() -> Any:
            return fails.s().on_failure(mend.s())

        fails.s().on_failure(mend.s()).enqueue()
        begins.enqueue()
        app.drain(["default"])
        assert [job.order_key for job in app.queue("target").find()] == ["a", "a"]

    def test_a_chain_under_one_order_key(self, app: Stanchion) -> None:
        @app.task(queue="target", order_key="a", name="link")
        def link(*_values: Any) -> None: ...

        chain(*(link.s() for _ in range(3))).enqueue()
        app.drain(["target"])
        assert [job.state for job in app.queue("target").find()] == [JobState.DONE] * 3

    def test_with_lanes_as_well(self, q: Queue) -> None:
        q.configure(ordered_by="tenant", lanes=4, lanes_per_tenant=2)
        q.push_many([Push(n, tenant=f"t{n % 3}") for n in range(9)])
        assert sorted(payloads(q.reserve(9))) == [0, 1, 2]

    def test_another_process_hears_of_it_within_seconds(self, q: Queue, other_q: Queue) -> None:
        other_q.push(1, tenant="a")
        q.configure(ordered_by="tenant")
        context_of(other_q).settings.forget()  # after a second
        assert other_q.push(2, tenant="a").order_key == "a"

    @pytest.mark.parametrize("wrong", ["task", "", 1, True])
    def test_what_it_can_be(self, q: Queue, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match="ordered_by must be 'tenant'"):
            q.configure(ordered_by=wrong)
        assert q.configure(ordered_by=None).ordered_by is None
