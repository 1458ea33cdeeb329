"""Flows written as Celery's canvas has them: immutable calls, `|`, and handles that are iterated and awaited."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stanchion import FlowState, JobState, Push, Stanchion, barrier, chain, group
from stanchion.errors import FlowFailed, InvalidInput
from stanchion_conformance.flows.flows import Work
from stanchion_conformance.harness import NO_TRANSACTION, QUEUE


class TestImmutableCalls:
    """`task.si(...)` waits for the part before it, and takes no value from it."""

    def test_in_a_chain_takes_its_own_arguments_only(self, app: Stanchion, work: Work) -> None:
        note = app.tasks["note"]
        assert work.run(chain(work.add(1, 2), note.si("a", "b"), work.note("c"))) == [["a", "b"], "c"]
        assert work.seen == [("a", "b"), (["a", "b"], "c")]

    def test_starts_after_the_part_before_it(self, app: Stanchion, work: Work) -> None:
        flow = chain(group(work.note(n) for n in range(3)), app.tasks["note"].si("end")).enqueue()
        assert [job.state for job in flow.members()] == [JobState.READY] * 3 + [JobState.WAITING]
        app.drain()
        assert (sorted(map(str, work.seen[:3])), work.seen[3]) == (["0", "1", "2"], "end")
        assert flow.result(timeout=60) == "end"

    def test_in_a_group_behind_another_part(self, app: Stanchion, work: Work) -> None:
        add = app.tasks["add"]
        assert work.run(work.add(1) | group(add.si(5), add.s(5), add.using(priority=3).si(7, 8))) == [5, 6, 15]

    @pytest.mark.usefixtures("small_steps")
    def test_as_the_members_of_a_large_group(self, app: Stanchion, work: Work) -> None:
        add = app.tasks["add"]
        assert work.run(work.add(1) | group(add.si(n) for n in range(30)) | work.note()) == list(range(30))

    def test_is_cancelled_by_a_failure_before_it(self, app: Stanchion, work: Work) -> None:
        work.failed(chain(work.fail(), app.tasks["note"].si("never")))
        assert work.seen == []

    def test_keeps_its_kind_with_on_failure(self, app: Stanchion, work: Work) -> None:
        add, note = app.tasks["add"], app.tasks["note"]
        assert work.run(work.add(1) | add.si(5).on_failure(note.si("no")) | work.add(10)) == 15
        work.failed(work.add(1) | app.tasks["fail"].si().on_failure(note.si("handled")))
        assert work.seen == ["handled"]

    def test_continues_a_job_whose_task_returned_it(self, app: Stanchion, work: Work) -> None:
        @app.task(name="hand_over", queue=QUEUE)
        def hand_over(value: int) -> Any:
            return app.tasks["add"].si(value, 100)

        assert work.run(work.add(1) | hand_over.s() | work.add(1000)) == 1101

    def test_alone_is_a_flow_of_one_job(self, app: Stanchion, work: Work) -> None:
        assert work.run(app.tasks["add"].si(1, 2)) == 3

    @pytest.mark.usefixtures("work")
    def test_takes_no_transaction(self, app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="tx applies to the whole flow"):
            app.tasks["add"].using(tx=NO_TRANSACTION).si(1)


class TestPipes:
    """`a | b` is `chain(a, b)`."""

    def test_of_calls_are_one_chain(self, work: Work) -> None:
        flow = work.add(1) | work.add(10) | work.add(100)
        assert repr(flow) == repr(chain(work.add(1), work.add(10), work.add(100)))
        assert work.run(flow) == 111

    def test_of_groups_and_flows(self, work: Work) -> None:
        flow = work.add(1) | group(work.add(10), work.add(20) | work.add(30)) | work.note()
        assert work.run(flow) == [11, 51]
        assert work.run(barrier(work.add(1)) | work.note("after")) == "after"

    def test_keep_the_calls_on_failure_of_their_parts(self, work: Work) -> None:
        part = (work.fail() | work.add(1)).on_failure(work.note("inner"))
        work.failed((part | work.note("never")).on_failure(work.note("outer")))
        assert sorted(work.seen) == ["inner", "outer"]

    def test_with_payloads_on_either_side(self, app: Stanchion, work: Work) -> None:
        flow = (Push(1, queue="plain") | work.add(5) | Push("end", queue="plain")).enqueue()
        (first,) = app.queue("plain").reserve()
        first.commit(10)
        app.drain([QUEUE])
        (last,) = app.queue("plain").reserve()
        assert flow.value_for(last) == 15

    def test_refuse_other_things(self, app: Stanchion, work: Work) -> None:
        with pytest.raises(InvalidInput, match=r"a flow consists of calls, such as task\.s\(1\)"):
            _ = work.add(1) | app.tasks["add"]  # type: ignore[operator]
        with pytest.raises(InvalidInput, match="a flow consists of calls"):
            _ = 5 | work.add(1)  # type: ignore[operator]


class TestHandlesAsAWhole:
    """A handle is iterated for its jobs, and awaited for its value."""

    def test_a_group_yields_its_members_in_order(self, app: Stanchion, work: Work) -> None:
        flow = group(work.add(n) for n in range(5)).on_failure(work.note("no")).enqueue()
        app.drain()
        assert [member.result(timeout=60) for member in flow] == [0, 1, 2, 3, 4]
        assert [member.id for member in flow] == [job.id for job in flow.members()]

    def test_a_group_of_thousands_is_read_page_by_page(self, work: Work) -> None:
        flow = group(work.add(n) for n in range(2500)).enqueue()
        assert len({member.id for member in flow}) == 2500

    def test_a_coroutine_iterates_and_awaits_it(self, app: Stanchion, work: Work) -> None:
        async def run() -> tuple[list[Any], Any, list[Any]]:
            flow = await group(work.add(n) for n in range(150)).aenqueue()
            await app.adrain()
            members = [member async for member in flow]
            return [await member for member in members[:3]], await flow, await asyncio.gather(*members)

        assert asyncio.run(run()) == ([0, 1, 2], list(range(150)), list(range(150)))

    def test_awaiting_raises_the_failure(self, app: Stanchion, work: Work) -> None:
        async def run() -> None:
            flow = await group(work.fail(), work.add(1)).on_failure(work.note("handled")).aenqueue()
            await app.adrain()
            assert await flow.aget_state() is FlowState.FAILED
            with pytest.raises(FlowFailed, match="it broke"):
                await flow

        asyncio.run(run())
        assert work.seen == ["handled"]

    def test_a_task_that_returns_one_does_not_wait_for_it(self, app: Stanchion, work: Work) -> None:
        job, flow = app.tasks["add"].enqueue(1, 2), group(work.add(1)).enqueue()
        app.drain()

        @app.task(name="give", queue=QUEUE, max_attempts=1)
        def give(kind: str) -> Any:
            return {"job": job, "flow": flow}[kind]

        given = give.enqueue_many([("job",), ("flow",)])
        app.drain()
        assert [handle.get_state() for handle in given] == [JobState.DEAD, JobState.DEAD]
        assert all("can't be encoded as JSON" in handle.job().errors[-1]["error"] for handle in given)
