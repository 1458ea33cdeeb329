"""Traces of OpenTelemetry: from the push of a job to its attempts, and to what it goes on as."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from stanchion import Bury, Cancel, Job, Retry, Send, Snooze, Stanchion, group
from stanchion.core.checks import MAX_HEADERS
from stanchion.core.times import iso
from stanchion.jobs.insert import BATCH
from tests.servers.manager import ManagerThread
from tests.telemetry.spans import attributes, identity, links, parent, pickup, printed, recording, span, spans, stored
from tests.worker.conftest import ended, until, working

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(params=["memory", "sqlite", "manager"])
def app(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Stanchion]:
    recording()
    if request.param != "manager":
        url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?synchronous=off"
        app = Stanchion(url, traces=True)
        yield app
        app.close()
        return
    memory = Stanchion("memory://")
    with ManagerThread(memory.store) as manager:
        app = Stanchion(manager.url, traces=True)
        yield app
        app.close()


@pytest.fixture
def local() -> Iterator[Stanchion]:
    recording()
    app = Stanchion("memory://", traces=True)
    yield app
    app.close()


def ids_of(one: ReadableSpan) -> object:
    return attributes(one)["messaging.message.id"]


@pytest.mark.parametrize("timeout", [None, 60])
def test_each_attempt_is_a_child_of_the_push(app: Stanchion, timeout: float | None) -> None:
    @app.task(name="t", queue="q", retry=Retry.constant(0, max_attempts=3), timeout=timeout)
    def task(job: Job) -> None:
        taken.append(job)
        if job.attempts == 1:
            raise ValueError("no")

    taken: list[Job] = []
    job = app.enqueue("t")
    with working(app):
        ended(app, job.id)
    push, (first, second) = span("push q"), spans("process t")
    assert push.kind is SpanKind.PRODUCER
    operation = {"messaging.system": "stanchion", "messaging.destination.name": "q", "messaging.message.id": job.id}
    pushing = {"messaging.operation.name": "push", "messaging.operation.type": "send"}
    assert attributes(push) == {**operation, **pushing}
    processing = {"messaging.operation.name": "process", "messaging.operation.type": "process"}
    for number, attempt in enumerate((first, second), 1):
        assert attempt.kind is SpanKind.CONSUMER
        assert parent(attempt) == identity(push)
        assert links(attempt) == [identity(push)]
        error = {"error.type": "ValueError"} if attempt is first else {}
        own = {"stanchion.job.attempt": number, "stanchion.job.task": "t"}
        assert attributes(attempt) == {**operation, **processing, **own, **error, **pickup(taken[number - 1])}
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert [event.name for event in first.events] == ["exception"]


def test_an_exception_in_a_span_is_redacted(local: Stanchion) -> None:
    @local.task(name="t", queue="q", max_attempts=1, hide=("order.iban",))
    def task(order: dict[str, str]) -> None:
        raise ValueError(f"no {order['iban']} with password=hunter2")

    local.enqueue("t", {"iban": "DE0212030000"})
    local.drain()
    (event,) = span("process t").events
    told = event.attributes or {}
    assert told["exception.message"] == "no ••• with password=•••"
    assert "no ••• with password=•••" in str(told["exception.stacktrace"])
    assert "hunter2" not in str(told).replace('password=hunter2")', "")


def test_the_span_is_current_in_an_async_task(app: Stanchion) -> None:
    @app.task(name="inner", queue="q")
    def inner() -> None: ...

    @app.task(name="outer", queue="q")
    async def outer() -> None:
        with trace.get_tracer("mine").start_as_current_span("own"):
            await inner.aenqueue()

    outer.enqueue()
    with working(app):
        until(lambda: spans("process inner"))
    process = span("process outer")
    _, push = spans("push q")
    assert parent(span("own")) == identity(process)
    assert parent(push) == identity(span("own"))
    assert parent(span("process inner")) == identity(push)


def test_members_of_a_flow_and_what_a_task_goes_on_as(app: Stanchion) -> None:
    @app.task(name="leaf", queue="q")
    def leaf(*_values: Any) -> None: ...

    @app.task(name="goes_on", queue="q")
    def goes_on() -> Any:
        return leaf.s()

    flow = group(goes_on.s(), goes_on.s()).enqueue()
    with trace.get_tracer("mine").start_as_current_span("of the drainer"):
        app.drain()
    push, members = span("push q"), spans("process goes_on")
    assert attributes(push)["messaging.batch.message_count"] == 2
    assert attributes(push)["messaging.message.conversation_id"] == flow.id
    assert [parent(member) for member in members] == [identity(push)] * 2
    assert {parent(one) for one in spans("process leaf")} == {identity(member) for member in members}
    assert attributes(members[0])["messaging.message.conversation_id"] == flow.id


def test_stations_are_children_of_one_another(app: Stanchion) -> None:
    pipe = app.pipeline("p")

    @pipe.station("first", to=["fork"], entry=True)
    def first(item: int) -> int:
        return item + 1

    @pipe.station("fork", to=["last"])
    def fork(item: int) -> list[Send]:
        return [Send("last", item), Send("last", item + 1)]

    @pipe.station("last")
    def last(_item: int) -> None: ...

    app.queue("p.first").push(1)
    app.drain()
    assert parent(span("process p.first")) == identity(span("push p.first"))
    assert parent(span("process p.fork")) == identity(span("process p.first"))
    assert [parent(one) for one in spans("process p.last")] == [identity(span("process p.fork"))] * 2


def test_a_move_keeps_the_context(app: Stanchion) -> None:
    @app.task(name="t", queue="q")
    def task(job: Job) -> None:
        if job.queue == "q":
            job.move("r")  # type: ignore[attr-defined]

    app.enqueue("t")
    app.drain(["q", "r"])
    assert [parent(one) for one in spans("process t")] == [identity(span("push q"))] * 2
    assert [attributes(one)["messaging.destination.name"] for one in spans("process t")] == ["q", "r"]


def test_a_push_by_another_process_is_the_parent(tmp_path: Any) -> None:
    recording()
    url = f"sqlite:///{tmp_path}/jobs.db?synchronous=off"
    app = Stanchion(url, traces=True)
    app.task(name="t", queue="q")(lambda: None)
    program = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from stanchion import Stanchion
trace.set_tracer_provider(TracerProvider())
app = Stanchion(sys.argv[1], traces=True)
with trace.get_tracer("web").start_as_current_span("request") as span:
    app.enqueue("t", queue="q")
    print(span.get_span_context().trace_id)
"""
    (number,) = printed(program, url)
    app.drain(["q"])
    (job,) = app.find(queue="q")
    _, trace_id, span_id, _ = str(job.headers["traceparent"]).split("-")
    assert int(trace_id, 16) == int(number)
    assert parent(span("process t")) == (int(number), int(span_id, 16))
    app.close()


@pytest.mark.parametrize(
    "strange", ["", "x", "00-0-0-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", 7, None, {"a": 1}]
)
def test_a_strange_context_is_none(local: Stanchion, strange: Any) -> None:
    local.task(name="t", queue="q")(lambda: None)
    plain = Stanchion(store=local.store)
    plain.enqueue("t", queue="q", headers={"traceparent": strange, "tracestate": strange, "a": 1})
    with trace.get_tracer("mine").start_as_current_span("of the drainer"):
        local.drain()
    assert parent(span("process t")) is None
    assert links(span("process t")) == []
    job = local.enqueue("t", queue="q", headers={"traceparent": strange, "tracestate": [strange], "a": 1})
    local.drain()
    assert parent(spans("process t")[1]) == identity(span("push q"))
    assert {**stored(local, job.id).headers, "traceparent": None} == {"traceparent": None, "a": 1}


def test_a_context_that_the_caller_gives_is_kept(local: Stanchion) -> None:
    local.task(name="t", queue="q")(lambda: None)
    given = {"traceparent": PARENT, "tracestate": "a=b", "x": "é"}
    job = local.enqueue("t", queue="q", headers=given)
    local.drain()
    assert stored(local, job.id).headers == given
    process = span("process t")
    assert parent(process) == (int(PARENT[3:35], 16), int(PARENT[36:52], 16))
    assert links(process)[0] == parent(process)
    assert process.context.trace_state.to_header() == "a=b"


def test_headers_without_room_stay_as_they_are(local: Stanchion) -> None:
    full = {"x": "x" * (MAX_HEADERS - 40)}
    job = local.queue("q").push(1, headers=full)
    assert stored(local, job.id).headers == full


def test_batches_are_children_of_their_caller(local: Stanchion) -> None:
    with trace.get_tracer("mine").start_as_current_span("own"):
        local.queue("q").push_many(range(BATCH * 2 + 1))
    pushes = spans("push q")
    assert [attributes(one).get("messaging.batch.message_count") for one in pushes] == [BATCH, BATCH, None]
    assert [parent(one) for one in pushes] == [identity(span("own"))] * 3


@pytest.mark.parametrize("route", ["drain", "worker"])
def test_a_batch_is_one_span_and_what_its_jobs_go_on_as_are_its_children(app: Stanchion, route: str) -> None:
    @app.task(name="leaf", queue="q")
    def leaf(number: int) -> None: ...

    @app.task(name="many", queue="q", batch=10)
    def many(numbers: list[int]) -> list[Any]:
        return [leaf.s(number) for number in numbers]

    handles = [many.enqueue(n) for n in range(2)]
    if route == "drain":
        with trace.get_tracer("mine").start_as_current_span("of the drainer"):
            app.drain()
    else:
        with working(app):
            for handle in handles:
                handle.result(timeout=60)
    pushes, calls = spans("push q"), spans("process many")
    assert sorted(link for one in calls for link in links(one)) == sorted(map(identity, pushes))
    if route == "drain":
        (call,) = calls
        assert parent(call) is None
        assert attributes(call)["messaging.batch.message_count"] == 2
        assert attributes(call)["messaging.destination.name"] == "q"
        assert attributes(call)["stanchion.job.task"] == "many"
    assert {parent(one) for one in spans("process leaf")} == {identity(one) for one in calls}
    assert len(spans("process leaf")) == 2


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Snooze(60), StatusCode.UNSET),
        (Cancel("no"), StatusCode.UNSET),
        (Bury("no"), StatusCode.ERROR),
        (TypeError("no"), StatusCode.ERROR),
    ],
)
@pytest.mark.parametrize("way", ["raised", "returned"])
def test_what_is_an_error(local: Stanchion, outcome: BaseException, status: StatusCode, way: str) -> None:
    @local.task(name="t", queue="q")
    def task() -> Any:
        if way == "raised" or isinstance(outcome, TypeError):
            raise outcome
        return outcome

    task.enqueue()
    local.drain()
    assert span("process t").status.status_code is status


def test_a_time_out_ends_the_span(local: Stanchion) -> None:
    @local.task(name="t", queue="q", timeout=0.2, max_attempts=1)
    def task() -> None:
        while True:
            time.sleep(0.01)

    job = task.enqueue()
    with working(local):
        ended(local, job.id)
    assert attributes(span("process t"))["error.type"] == "stanchion.errors.TaskTimeout"


def test_a_push_that_fails_is_an_error(local: Stanchion) -> None:
    with pytest.raises(Exception, match="semaphore"):
        local.enqueue("t", queue="q", limits=["unknown"])
    assert span("push q").status.status_code is StatusCode.ERROR


def test_a_duplicate_names_the_job_that_is_there(local: Stanchion) -> None:
    first, second = (local.queue("q").push(1, key="k") for _ in range(2))
    assert [ids_of(one) for one in spans("push q")] == [first.id, second.id] == [first.id] * 2


def test_nothing_without_traces() -> None:
    recording()
    app = Stanchion("memory://")
    app.task(name="t", queue="q")(lambda: None)
    job = app.enqueue("t", queue="q")
    app.drain()
    assert stored(app, job.id).headers == {}
    assert spans("push q") + spans("process t") == []


OFF = """
import sys
from stanchion import Stanchion
app = Stanchion("memory://", traces=sys.argv[1] == "on")
app.task(name="t")(lambda: None)
job = app.enqueue("t")
app.drain()
print(*app.get(job.id).headers, app.get(job.id).state, "opentelemetry" in sys.modules)
"""


@pytest.mark.parametrize("wanted", ["off", "on"])
def test_no_header_without_a_provider(wanted: str) -> None:
    assert printed(OFF, wanted) == ["done", json.dumps(wanted == "on").capitalize()]


def test_the_extra_that_is_missing() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
from stanchion import MissingExtra, Stanchion
Stanchion("memory://").queue("q").push(1)
try:
    Stanchion("memory://", traces=True)
except MissingExtra as error:
    print(error)
"""
    assert "'stanchion[opentelemetry]'" in printed(program)


def test_the_scope_has_a_version_and_a_schema(local: Stanchion) -> None:
    local.queue("q").push(1)
    scope = span("push q").instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.version) == ("stanchion", version("stanchion"))
    assert str(scope.schema_url).startswith("https://opentelemetry.io/schemas/")


def test_spans_have_the_due_time_and_the_delay(local: Stanchion) -> None:
    @local.task(name="t", queue="q")
    def task() -> None:
        pass

    job = task.enqueue().job()
    local.drain(["q"])
    recorded = local.get(job.id)
    assert recorded is not None
    found = attributes(span("process t"))
    assert found["stanchion.job.due_at"] == iso(job.run_at)
    assert found["stanchion.job.pickup_delay"] == recorded.pickup_delay

    first, second = local.queue("r").push_many([1, 2])
    reserved = local.queue("r").reserve(2)
    found = attributes(span("reserve r"))
    assert found["stanchion.job.due_at"] == iso(min(first.run_at, second.run_at))
    assert found["stanchion.job.pickup_delay"] == max(one.pickup_delay or 0 for one in reserved)
    reserved[0].commit()
    assert not [name for name in attributes(span("commit r")) if name.startswith("stanchion.job")]
