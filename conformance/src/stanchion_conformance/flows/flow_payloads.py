"""Flows of plain payloads: members and followers that are jobs without a task."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Bury, FlowState, JobState, Push, Queue, Send, Stanchion, barrier, chain, group
from stanchion.errors import DuplicateKey, FlowFailed, InvalidInput
from stanchion.jobs.reservation import Reservation
from stanchion.stores.protocol import Store
from stanchion_conformance.flows.flows import Work
from stanchion_conformance.harness import QUEUE, StoreClock, sizes_of
from stanchion_conformance.jobs.encryption import new_key

PLAIN = "plain"


@pytest.fixture
def plain(app: Stanchion) -> Queue:
    """A queue without a worker."""
    return app.queue(PLAIN)


def payload(value: Any, **options: Any) -> Push:
    """Return a part of a flow in the plain queue."""
    return Push(value, queue=PLAIN, **options)


def reserved(queue: Queue) -> Reservation:
    """Return the only job that can be reserved."""
    (job,) = queue.reserve(5)
    return job


class TestPayloadsInFlows:
    def test_a_chain_passes_results_on(self, app: Stanchion, plain: Queue) -> None:
        flow = app.enqueue_flow(chain(payload({"step": 1}), payload({"step": 2}), payload(None)))
        first = reserved(plain)
        assert (first.payload, first.task, app.flow(flow.id).value_for(first)) == ({"step": 1}, None, None)
        first.commit({"rows": 3})
        second = reserved(plain)
        assert (second.payload, app.flow(second.flow or "").value_for(second)) == ({"step": 2}, {"rows": 3})
        second.commit([1, 2])
        third = reserved(plain)
        assert (third.payload, flow.value_for(third)) == (None, [1, 2])
        assert flow.state is FlowState.RUNNING
        third.commit("end")
        assert flow.result(timeout=60) == "end"

    def test_a_group_has_their_results_in_order(self, app: Stanchion, plain: Queue) -> None:
        flow = app.enqueue_flow(group(payload(n) for n in range(4)).then(payload("sum")))
        for job in reversed(plain.reserve(4)):
            job.commit(job.payload * 10)
        last = reserved(plain)
        assert (last.payload, flow.value_for(last)) == ("sum", [0, 10, 20, 30])
        last.commit(sum(flow.value_for(last)))
        assert flow.result(timeout=60) == 60

    def test_a_barrier_passes_nothing_on(self, app: Stanchion, plain: Queue) -> None:
        flow = app.enqueue_flow(barrier(payload(1), payload(2)).then(payload("after")))
        for job in plain.reserve(2):
            job.commit("ignored")
        last = reserved(plain)
        assert flow.value_for(last) is None
        last.commit()
        assert flow.result(timeout=60) is None

    def test_beside_calls_of_tasks(self, work: Work, app: Stanchion, plain: Queue) -> None:
        flow = chain(work.add(1), payload("by hand"), work.add(10)).enqueue()
        app.drain()
        by_hand = reserved(plain)
        assert flow.value_for(by_hand) == 1
        by_hand.commit(5)
        app.drain()
        assert flow.result(timeout=60) == 15
        mixed = group(work.add(1), payload("x")).then(work.note()).enqueue()
        app.drain()
        reserved(plain).commit("y")
        app.drain()
        assert mixed.result(timeout=60) == [1, "y"]

    def test_popped_members_are_done(self, app: Stanchion, plain: Queue) -> None:
        flow = app.enqueue_flow(group(payload(1), payload(2)).then(payload("after")))
        assert {job.payload for job in (plain.pop(), plain.pop()) if job is not None} == {1, 2}
        last = reserved(plain)
        assert flow.value_for(last) == [None, None]
        last.commit("end")
        assert flow.result(timeout=60) == "end"

    def test_a_batch_ends_members(self, app: Stanchion, plain: Queue) -> None:
        flow = app.enqueue_flow(group(payload(n) for n in range(10)))
        with plain.batch(10) as jobs:
            for job in jobs:
                job.commit(-job.payload)
        assert flow.result(timeout=60) == [-n for n in range(10)]

    def test_members_may_have_options(self, app: Stanchion, plain: Queue, clock: StoreClock) -> None:
        app.semaphore("one", 1)
        options = {"priority": 7, "tenant": "acme", "headers": {"a": 1}, "limits": ["one"], "delay": 60}
        app.enqueue_flow(chain(payload(1, **options), payload(2)))
        assert plain.reserve() == []
        clock.advance(61)
        job = reserved(plain)
        assert (job.priority, job.tenant, job.headers, job.limits) == (7, "acme", {"a": 1}, ["one"])

    @pytest.mark.usefixtures("small_steps")
    def test_large_groups(self, app: Stanchion, plain: Queue) -> None:
        flow = app.enqueue_flow(group(payload(n) for n in range(50)).then(payload("end")))
        for job in plain.reserve(50):
            job.commit(job.payload)
        last = reserved(plain)
        assert flow.value_for(last) == list(range(50))

    def test_collecting_jobs_go_to_a_queue_with_workers(self, work: Work, app: Stanchion, plain: Queue) -> None:
        events = app.event_group("collecting", then=payload("end"))
        events.add(chain(work.add(1), group(payload(1), payload(2))), group(payload(3)))
        events.close()
        app.drain()
        for job in plain.reserve(5):
            assert job.task is None
            job.commit(job.payload)
        app.drain([QUEUE, "default"])
        assert events.value_for(reserved(plain)) == [[1, 2], [3]]

    def test_are_encrypted(self, store: Store) -> None:
        app = Stanchion(store=store, keys=[new_key()])
        flow = app.enqueue_flow(chain(payload("secret"), payload("next")))
        first = reserved(app.queue(PLAIN))
        assert "secret" not in store.fetch([first.id])[first.id].payload
        first.commit("result")
        second = reserved(app.queue(PLAIN))
        assert (second.payload, flow.value_for(second)) == ("next", "result")

    def test_a_task_goes_on_as_a_payload(self, app: Stanchion, plain: Queue) -> None:
        @app.task(name="hand over", queue=QUEUE)
        def hand_over() -> Any:
            return payload("to do")

        handle = hand_over.enqueue()
        app.drain()
        job = reserved(plain)
        assert (job.id, job.payload) == (handle.id, "to do")
        job.commit("done by hand")
        assert handle.result(timeout=60) == "done by hand"

    def test_an_item_of_a_pipeline_is_a_member_until_it_leaves_it(self, app: Stanchion, plain: Queue) -> None:
        etl, seen = app.pipeline("etl"), list[Any]()

        @etl.station("raw", to="clean")
        def raw(item: Any) -> Any:
            return Send("clean", item, priority=item["n"])  # the priority makes it a continuation, or else a move

        @etl.station("clean")
        def clean(item: Any) -> None:
            seen.append(item["n"])

        items = group(Push({"n": n}, queue="etl.raw") for n in (0, 1))
        flow = app.enqueue_flow(chain(payload("start"), items, payload("end")))
        reserved(plain).commit("not for stations")
        app.drain(["etl.raw", "etl.clean"])
        assert sorted(seen) == [0, 1]
        last = reserved(plain)
        assert last.payload == "end"
        last.commit(1)
        assert flow.result(timeout=60) == 1


class TestFailingPayloads:
    @pytest.mark.parametrize("how", ["used up", "bury", "cancel", "abandon", "lease"])
    def test_fail_their_flow(self, app: Stanchion, plain: Queue, clock: StoreClock, how: str) -> None:
        flow = app.enqueue_flow(
            chain(payload("bad", max_attempts=1), payload("never")).on_failure(payload({"clean": "up"}))
        )
        (job,) = plain.reserve(lease=10)
        if how == "used up":
            job.rollback(0, "it broke")
        elif how == "bury":
            job.bury("it broke")
        elif how == "abandon":
            job.abandon()
        elif how == "lease":
            clock.advance(11)
            app.maintain()
        else:
            app.cancel(job.id)
            job.rollback(0)
        assert flow.state is FlowState.FAILED
        handler = reserved(plain)
        assert (handler.payload, flow.value_for(handler)) == ({"clean": "up"}, None)
        assert sizes_of(app.store, PLAIN).total == 1
        with pytest.raises(FlowFailed):
            flow.result(timeout=60)

    def test_with_attempts_left_come_again(self, app: Stanchion, plain: Queue) -> None:
        flow = app.enqueue_flow(chain(payload("once more"), payload("next")))
        reserved(plain).rollback(0, "not yet")
        again = reserved(plain)
        assert (again.payload, again.attempt, flow.state) == ("once more", 2, FlowState.RUNNING)

    def test_dead_letters_fail_it(self, app: Stanchion, plain: Queue) -> None:
        plain.configure(dead_letter="letters")
        flow = app.enqueue_flow(chain(payload("bad", max_attempts=1), payload("never")))
        reserved(plain).rollback(0, "it broke")
        assert flow.state is FlowState.FAILED
        assert app.queue("letters").size().total == 1

    def test_cancelled_flows_end_their_payloads(self, app: Stanchion) -> None:
        flow = app.enqueue_flow(chain(payload(1), payload(2)))
        assert flow.cancel() is FlowState.CANCELLED
        assert [job.state for job in flow.members()] == [JobState.CANCELLED] * 2

    def test_of_a_task_call_a_payload(self, work: Work, app: Stanchion, plain: Queue) -> None:
        flow = work.fail().on_failure(payload("alarm")).enqueue()
        app.drain()
        assert (flow.state, reserved(plain).payload) == (FlowState.FAILED, "alarm")

    def test_are_drawn(self, app: Stanchion) -> None:
        flow = app.enqueue_flow(chain(payload(1), group(payload(2))).on_failure(payload(3)))
        assert flow.graph().members[0].label == PLAIN
        assert PLAIN in flow.draw("mermaid")


class TestPayloadsAtTheDoor:
    def test_need_a_queue(self, app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="needs a queue"):
            chain(Push(1))
        with pytest.raises(InvalidInput, match="needs a queue"):
            app.event_group("e").add(Push(1))

    def test_have_checked_options(self, app: Stanchion, plain: Queue) -> None:
        with pytest.raises(InvalidInput, match="unknown option"):
            payload(1, prioritie=1)
        with pytest.raises(InvalidInput, match="priority"):
            app.enqueue_flow(chain(payload(1), payload(2, priority=1000)))
        with pytest.raises(InvalidInput, match="JSON"):
            app.enqueue_flow(chain(payload(1), payload(object())))
        assert plain.size().total == 0

    def test_without_a_call_belong_to_no_app(self) -> None:
        with pytest.raises(InvalidInput, match="enqueue_flow"):
            chain(payload(1), payload(2)).enqueue()

    def test_take_no_key_that_is_taken(self, app: Stanchion, plain: Queue) -> None:
        plain.push(1, key="k")
        with pytest.raises(DuplicateKey):
            app.enqueue_flow(chain(payload(1, key="k"), payload(2)))
        assert plain.size().total == 1

    def test_are_pushed_to_their_own_queue_only(self, app: Stanchion, plain: Queue) -> None:
        plain.push_many([payload(1)])
        with pytest.raises(InvalidInput, match="another queue"):
            app.queue("other").push_many([payload(2)])
        assert plain.size().total == 1

    def test_a_bad_outcome_is_no_payload(self) -> None:
        with pytest.raises(InvalidInput, match="on_failure takes"):
            chain(payload(1)).on_failure(Bury("x"))  # type: ignore[arg-type]
