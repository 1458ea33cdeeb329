"""Flows: calls that pass values on, and collected results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion import FlowState, Job, JobState, Signature, Stanchion, Task, barrier, chain, group
from stanchion.context import context_of
from stanchion.errors import (
    FlowFailed,
    ResultTimeout,
)
from stanchion.flows import insert, plan
from stanchion.flows.parts import Part
from stanchion.stores.protocol import Store
from stanchion.tasks.execution import attempted
from stanchion_conformance.harness import QUEUE, StoreClock, all_at_once, claim, find_jobs, sizes_of
from stanchion_conformance.jobs.encryption import new_key


class Work:
    """Tasks of an app, and a record of their calls."""

    def __init__(self, app: Stanchion) -> None:
        self.app, self.seen = app, list[Any]()
        self.broken = True

        @app.task(name="add", queue=QUEUE)
        def add(one: int, two: int = 0) -> int:
            return one + two

        @app.task(name="note", queue=QUEUE)
        def note(*args: Any) -> Any:
            self.seen.append(args[0] if len(args) == 1 else args)
            return self.seen[-1]

        @app.task(name="fail", queue=QUEUE, max_attempts=1)
        def fail(*_args: Any) -> str:
            if self.broken:
                raise ValueError("it broke")
            return "repaired"

        @app.task(name="go_on", queue=QUEUE)
        def go_on(kind: str, number: int) -> Any:
            return self._further(kind, number)

        @app.task(name="go_on_behind", queue=QUEUE)
        def go_on_behind(_value: Any, kind: str, number: int) -> Any:
            return self._further(kind, number)

        @app.task(name="relay", queue=QUEUE)
        def relay(value: Any) -> Signature:
            return note.s(value, "relayed")

        @app.task(name="factorial", queue=QUEUE)
        def factorial(number: int, product: str = "1") -> Any:
            return product if number < 2 else factorial.s(number - 1, str(int(product) * number))

        self.add: Callable[..., Signature[int]] = add.s
        self.note: Callable[..., Signature] = note.s
        self.fail: Callable[..., Signature] = fail.s
        self.go_on: Callable[..., Signature] = go_on.s
        self.tasks: dict[str, Task[..., Any]] = app.tasks

    def tail(self) -> Signature:
        """Return a call that continues as another, with its own value."""
        return self.tasks["relay"].s()

    def _further(self, kind: str, number: int) -> Any:
        further: dict[str, Part] = {
            "call": self.add(number, 1),
            "chain": chain(self.add(number, 1), self.add(10)),
            "group": group(self.add(number, n) for n in range(3)),
            "barrier": barrier(self.add(number, n) for n in range(3)),
            "nothing": group(),
            "deeper": chain(group(self.add(number), self.go_on("call", number)), self.note(), self.tail()),
            "fails": chain(self.fail(), self.add(1)),
            "handled": chain(self.fail(), self.add(1)).on_failure(self.note("handled")),
        }
        return further[kind]

    def run(self, part: Part) -> Any:
        """Enqueue a flow, run it, and return its value."""
        flow = part.enqueue()
        self.app.drain()
        assert flow.state is FlowState.DONE
        return flow.result(timeout=60)

    def failed(self, part: Part) -> FlowFailed:
        """Enqueue a flow, run it, and return its failure."""
        flow = part.enqueue()
        self.app.drain()
        assert flow.state is FlowState.FAILED
        with pytest.raises(FlowFailed) as caught:
            flow.result(timeout=60)
        return caught.value


def drain_in_batches(app: Stanchion) -> None:
    """Run all due jobs, many at a time; none of them may fail."""
    while rows := claim(app.store, 500):
        ended = [attempted(context_of(app), row).outcome for row in rows]
        app.store.settle([outcome for outcome in ended if outcome is not None])


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of more than 20 is a large one."""
    monkeypatch.setattr(plan, "LARGE", 20)
    monkeypatch.setattr(insert, "LARGE", 20)


@pytest.fixture
def work(app: Stanchion) -> Work:
    """The tasks of the app under test."""
    return Work(app)


class TestChain:
    def test_each_gets_the_result_of_the_one_before(self, work: Work, app: Stanchion) -> None:
        flow = chain(work.add(1, 2), work.add(10), work.add(two=100)).enqueue()
        assert flow.state is FlowState.RUNNING
        assert (app.queue(QUEUE).size().ready, app.queue(QUEUE).size().waiting) == (1, 2)
        with pytest.raises(ResultTimeout):
            flow.result(timeout=0)
        assert app.drain() == 3
        assert flow.result(timeout=60) == 113
        assert [job.result for job in flow.members()] == [3, 13, 113]
        assert {job.flow for job in flow.members()} == {flow.id}

    def test_of_one_and_a_single_call(self, work: Work) -> None:
        assert work.run(chain(work.add(1))) == 1
        assert work.run(work.add(2)) == 2

    def test_passes_on_nothing_too(self, work: Work) -> None:
        assert work.run(chain(work.note(None), work.note("after"))) == [None, "after"]

    def test_goes_on_in_other_queues_with_options_of_its_own(self, app: Stanchion, work: Work) -> None:
        last = work.tasks["add"].using(queue="elsewhere", priority=7, tenant="acme", delay=60, headers={"a": 1})
        flow = chain(work.add(1), last.s(1)).enqueue()
        app.drain()
        *_, job = flow.members()
        assert (job.queue, job.priority, job.tenant, job.headers) == ("elsewhere", 7, "acme", {"a": 1})
        assert job.state is JobState.SCHEDULED

    def test_gives_the_running_job_beside_the_value(self, app: Stanchion) -> None:
        @app.task(name="who", queue=QUEUE)
        def who(job: Job, value: int, more: int = 0) -> Any:
            return [value, more, job.flow]

        flow = chain(who.s(1), who.s(2)).enqueue()
        app.drain()
        assert flow.result(timeout=60) == [[1, 0, flow.id], 2, flow.id]

    def test_is_retried_where_it_failed(self, work: Work, app: Stanchion, clock: StoreClock) -> None:
        flaky = work.tasks["fail"].using(max_attempts=3)
        flow = chain(work.add(1), flaky.s(), work.note()).enqueue()
        app.drain()
        assert flow.state is FlowState.RUNNING
        work.broken = False
        clock.advance(60)
        app.drain()
        assert flow.result(timeout=60) == "repaired"
        assert [job.attempts for job in flow.members()] == [1, 2, 1]


class TestGroup:
    def test_gives_the_results_in_order(self, work: Work) -> None:
        urgent = work.tasks["add"].using(priority=9)
        assert work.run(group([work.add(1), work.add(2), urgent.s(3)])) == [1, 2, 3]
        assert work.run(group(work.add(n) for n in range(3)).then(work.note("more"))) == [[0, 1, 2], "more"]

    def test_of_nothing_is_done_at_once(self, work: Work, app: Stanchion) -> None:
        flow = app.enqueue_flow(group())
        assert (flow.state, flow.result(timeout=60), list(flow.members())) == (FlowState.DONE, [], [])
        assert work.run(group([]).then(work.note())) == []
        assert work.run(chain(work.add(1), group(), work.note(2))) == [[], 2]
        assert work.run(chain(work.add(1), barrier(), work.note(2))) == 2

    def test_each_member_gets_what_was_before_the_group(self, work: Work) -> None:
        assert work.run(chain(work.add(1), group(work.add(1), work.add(2)), work.note())) == [2, 3]

    def test_barrier_waits_and_gives_nothing(self, work: Work) -> None:
        assert work.run(barrier(work.add(1), work.add(2)).then(work.note("after"))) == "after"
        assert work.run(chain(chain(work.add(1), barrier(work.add(2))), work.note("after"))) == "after"
        assert work.run(barrier(work.add(1), work.add(2))) is None

    def test_nested_three_deep(self, work: Work) -> None:
        innermost = group(work.add(1), chain(work.add(2), work.add(2)))
        inner = group(innermost, chain(work.add(5), group(work.add(1), work.add(2))), barrier(work.add(9)))
        assert work.run(chain(group(work.add(0), inner), work.note())) == [0, [[1, 4], [6, 7], None]]

    def test_of_thousands(self, work: Work, app: Stanchion) -> None:
        large = group(chain(work.add(n), work.add(1)) if n % 500 == 7 else work.add(n) for n in range(2_100))
        flow = large.then(work.note()).enqueue()
        drain_in_batches(app)
        assert flow.result(timeout=60) == [n + 1 if n % 500 == 7 else n for n in range(2_100)]
        assert len(work.seen) == 1

    @pytest.mark.usefixtures("small_steps")
    def test_a_large_one_behind_another_part(self, work: Work, app: Stanchion, store: Store) -> None:
        members = [chain(work.add(n), work.add(1)) if n % 10 == 7 else work.add(n) for n in range(50)]
        assert work.run(chain(barrier(work.add(1)), group(members), work.note())) == [
            n + (n % 10 == 7) for n in range(50)
        ]
        flow = chain(work.fail(), group(members), work.note()).enqueue()
        assert sizes_of(store, QUEUE).waiting == 56
        app.drain()
        assert flow.state is FlowState.FAILED
        assert sizes_of(store, QUEUE).total == 0

    def test_completes_once_among_racing_workers(self, work: Work, app: Stanchion, other_app: Stanchion) -> None:
        others = Work(other_app)
        members = [chain(work.add(n), work.add(1)) if n % 2 else work.add(n) for n in range(60)]
        flow = group(members).then(work.note()).enqueue()
        all_at_once([app.drain, other_app.drain] * 2)
        app.drain()
        wanted = [n + n % 2 for n in range(60)]
        assert flow.result(timeout=60) == wanted
        assert work.seen + others.seen == [wanted]

    def test_needs_no_history(self, work: Work, app: Stanchion) -> None:
        app.queue(QUEUE).configure(history_ttl=0)
        assert work.run(chain(work.add(1), group(work.add(1), work.add(2)), work.note())) == [2, 3]

    def test_seals_what_passes_between(self, store: Store) -> None:
        work = Work(Stanchion(store=store, keys=[new_key()]))
        secret = "s3cr3t"
        flow = chain(work.note(secret), group(work.note(), work.note()), work.fail(secret)).on_failure(
            work.note(secret, "handled")
        )
        handle = flow.enqueue()
        work.app.drain()
        assert work.seen[-1] == (secret, "handled")
        stored = [*find_jobs(store, flow_root=handle.id), *store.flow_nodes(handle.id)]
        ends = [end for node in store.flow_nodes(handle.id) for end in store.flow_ends(node.id)]
        assert len(ends) == 4
        assert secret not in repr([stored, ends])
