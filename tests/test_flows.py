"""Flows in a worker, which reads what a job gets before it runs it; and what the API promises beside the stores."""

import asyncio
import math
from typing import Any

import pytest

from stanchion import FlowState, Job, JobState, Stanchion, Worker, barrier, chain, group
from stanchion.errors import InvalidInput, ResultTimeout, StoreUnavailable
from stanchion.flows.plan import MOST_IN_ONE_STEP
from stanchion.stores.records.jobs import QUEUED
from tests.worker.conftest import Faulty, until, working


@pytest.fixture
def store() -> Faulty:
    return Faulty(Stanchion("memory://").store, "flow_ends")


@pytest.fixture
def app(store: Faulty) -> Stanchion:
    return Stanchion(store=store)


@pytest.fixture
def add(app: Stanchion):
    @app.task(name="add")
    def add(one: int, two: int = 0) -> int:
        return one + two

    return add


@pytest.fixture
def total(app: Stanchion):
    @app.task(name="total")
    async def total(numbers: list[int]) -> int:
        await asyncio.sleep(0)
        return sum(numbers)

    return total


def test_a_worker_runs_a_flow(app, add, total):
    flow = chain(group(add.s(n, 1) for n in range(50)), total.s(), group(add.s(1), add.s(2))).enqueue()
    with working(app):
        assert flow.result(timeout=60) == [1276, 1277]
    assert flow.state is FlowState.DONE


def test_a_worker_goes_on_with_what_a_task_returns(app, add, total):
    @app.task
    async def spread(count: int) -> Any:
        return group(add.s(n) for n in range(count)).then(total.s())

    @app.task
    def down(number: int) -> Any:
        return down.s(number - 1) if number else "down"

    with working(app):
        handles = [spread.enqueue(10), down.enqueue(20)]
        assert [handle.result(timeout=60) for handle in handles] == [45, "down"]
        flow = chain(spread.s(4), add.s(100)).enqueue()
        assert flow.result(timeout=60) == 106


def test_events_tell_of_each_call(app, add):
    heard = []
    for event in ("pushed", "started", "done", "failed", "retrying", "dead"):
        app.on(event)(lambda job, *_error, event=event: heard.append((event, job.task, str(job.state))))

    @app.task(name="again")
    def again() -> Any:
        return add.s(1)

    again.s().enqueue()
    app.drain()
    assert heard == [
        ("pushed", "again", "ready"),
        ("started", "again", "running"),
        ("started", "add", "running"),
        ("done", "add", "done"),
    ]
    heard.clear()
    chain(add.s(1), add.s(1)).enqueue()
    assert heard == [("pushed", "add", "ready"), ("pushed", "add", "waiting")]


def test_what_a_job_gets_is_awaited_through_an_outage(app, store, add):
    flow = chain(add.s(1), add.s(2)).enqueue()
    store.error = StoreUnavailable("no route to the store")
    store.broken = True
    with working(app):
        until(lambda: store.calls.get("flow_ends", 0) > 2)
        follower = list(flow.members())[1]
        assert (follower.failures, follower.errors) == (0, [])
        store.broken = False
        assert flow.result(timeout=60) == 3
    assert [job.attempts for job in flow.members()] == [1, 1]


def test_drain_says_when_it_can_t_read_what_a_job_gets(app, store, add):
    flow = chain(add.s(1), add.s(2)).enqueue()
    store.error = StoreUnavailable("no route to the store")
    store.broken = True
    with pytest.raises(StoreUnavailable):
        app.drain()
    store.broken = False
    assert list(flow.members())[1].failures == 0


def test_a_value_that_can_t_be_read_is_the_job_s_end(store):
    first, second = (Stanchion(store=store, keys=[key]) for key in _two_keys())
    for one in (first, second):
        one.task(name="same", queue="default" if one is first else "second")(_same)
    flow = chain(first.tasks["same"].s("secret"), first.tasks["same"].using(queue="second").s()).enqueue()
    first.drain(["default"])
    second.drain(["second"])
    assert flow.state is FlowState.FAILED
    assert "key" in list(flow.members())[1].errors[-1]["error"]


def _same(value: Any) -> Any:
    return value


def _two_keys() -> list[bytes]:
    fernet = pytest.importorskip("cryptography.fernet").Fernet
    return [fernet.generate_key(), fernet.generate_key()]


def test_async_calls(app, add, total):
    async def work() -> Any:
        flow = await group(add.s(n) for n in range(5)).then(total.s()).aenqueue()
        events = app.event_group("async")
        await events.aadd(add.s(1))
        await events.aclose()
        stopped = await add.s(1).aenqueue()
        await stopped.acancel()
        with working(app):
            return await flow.aresult(timeout=60), await events.aresult(timeout=10), stopped.state

    assert asyncio.run(work()) == (10, [1], FlowState.CANCELLED)


def test_options_of_a_call_are_those_of_its_task(app):
    @app.task(name="urgent", queue="mail", priority=9, max_attempts=3, timeout=5, limits=[])
    def urgent() -> None: ...

    flow = group(urgent.s(), urgent.using(priority=1, order_key="o").s()).enqueue()
    jobs = list(flow.members())
    assert [(job.queue, job.priority, job.max_attempts, job.timeout) for job in jobs] == [
        ("mail", 9, 3, 5.0),
        ("mail", 1, 3, 5.0),
    ]


def test_parts_show_what_they_are(add):
    flow = chain(add.s(1, two=2), group([add.s(3)]), barrier(add.s(n) for n in range(2)))
    assert repr(flow) == "chain(add(1, two=2), group([add(3)]), barrier([...]))"


def test_a_long_chain_is_put_together_and_run(app, add):
    flow = add.s(0)
    for _ in range(400):
        flow = flow.then(add.s(1))
    handle = flow.enqueue()
    app.drain()
    assert handle.result(timeout=60) == 400


def test_a_returned_flow_has_a_size_that_one_step_can_hold(app, add):
    @app.task
    def spread(count: int) -> Any:
        return group(add.s(n) for n in range(count))

    handle = spread.enqueue(MOST_IN_ONE_STEP + 1)
    app.drain()
    assert handle.state is JobState.DEAD
    assert "enqueue" in handle.job().errors[-1]["error"]


def test_queues_get_their_settings_from_the_code(app, add):
    app.queue("later", history_ttl=60)
    chain(add.s(1), add.using(queue="later").s(2)).enqueue()
    assert app.queue("later").settings.history_ttl == 60


def test_members_of_laned_queues_have_lanes(app, add):
    app.queue("wide", lanes=8, lanes_per_tenant=2).configure()
    wide = add.using(queue="wide", tenant="acme")

    @app.task(queue="wide")
    def spread() -> Any:
        return group(wide.s(1), wide.s(2)).then(wide.s(0))

    flow = chain(wide.s(1), group(wide.s(1), wide.s(2))).enqueue()
    assert None not in {job.lane for job in flow.members()}
    handle = spread.using(tenant="acme").enqueue()
    app.drain()
    assert None not in {job.lane for job in app.find(queue="wide", tenant="acme")}
    assert handle.job().flow is not None


def test_a_result_is_waited_for_as_long_as_asked(add):
    flow = add.s(1).enqueue()
    with pytest.raises(ResultTimeout, match="stanchion show"):
        flow.result(timeout=0.05)


def test_an_event_group_has_a_name_and_a_small_callback(app, add):
    with pytest.raises(InvalidInput, match="name"):
        app.event_group("")
    with pytest.raises(InvalidInput, match="members"):
        app.event_group("huge", then=group(add.s(n) for n in range(2001)))


def test_testing_runs_flows_too(app, add):
    with app.testing() as clock:
        flow = chain(add.s(1), add.using(delay=60).s(1)).enqueue()
        app.drain()
        assert flow.state is FlowState.RUNNING
        clock.advance(61)
        app.drain()
        assert flow.result() == 2


def test_a_handler_sees_its_flow(app):
    seen = []

    @app.task(max_attempts=1)
    def fail() -> None:
        raise ValueError("it broke")

    @app.task
    def handle(what: str, job: Job) -> None:
        seen.append((what, job.flow, job.state))

    flow = fail.s().on_failure(handle.s("fail")).enqueue()
    app.drain()
    assert seen == [("fail", flow.id, JobState.RUNNING)]
    assert QUEUED not in {job.state for job in flow.members()}


@pytest.mark.parametrize("where", ["member", "handler"])
def test_semaphores_that_nobody_made_are_refused(app, add, where):
    limited = add.using(limits=["nowhere"])
    part = limited.s(1) if where == "member" else add.s(1).on_failure(limited.s(1))

    @app.task
    def go_on() -> Any:
        return group(part)

    with pytest.raises(InvalidInput, match="nowhere"):
        group(part).enqueue()
    assert app.queue("default").size().total == 0
    handle = go_on.enqueue()
    app.drain()
    assert "nowhere" in handle.job().errors[-1]["error"]


def test_members_keep_to_their_semaphores(app, add):
    app.semaphore("narrow", capacity=1)
    narrow = add.using(limits=["narrow"])
    flow = chain(add.s(0), group(narrow.s(n) for n in range(10))).enqueue()
    with working(app):
        assert flow.result(timeout=60) == list(range(10))
    assert app.semaphore("narrow").holders() == []


def test_a_worker_that_is_to_empty_its_queues_ends_with_the_flow(app, add, total):
    flow = chain(group(add.s(n) for n in range(20)), total.s(), add.s(1), add.using(queue="other").s(1)).enqueue()
    Worker(app, ["default", "other"], until_empty=True, threads=2).run()
    assert flow.result(timeout=60) == 192


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
def test_hundreds_of_tail_calls_leave_one_job(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = Stanchion(url)

    @app.task(name="factorial")
    def factorial(number: int, product: str = "1") -> Any:
        return product if number < 2 else factorial.s(number - 1, str(int(product) * number))

    handle = factorial.enqueue(500)
    with working(app):
        assert int(handle.result(timeout=60)) == math.factorial(500)
    (job,) = app.find()
    assert (job.id, job.flow, job.attempts) == (handle.id, None, 1)
    app.close()
