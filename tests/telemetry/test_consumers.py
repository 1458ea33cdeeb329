"""Spans of those who take jobs without a worker: receive, process, settle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from stanchion import Snooze, Stanchion
from stanchion.context import context_of
from stanchion.errors import LeaseLost
from stanchion.telemetry import traces
from tests.telemetry.spans import attributes, identity, links, parent, pickup, printed, recording, span, spans


@pytest.fixture
def app() -> Iterator[Stanchion]:
    recording()
    app = Stanchion("memory://", traces=True)
    yield app
    app.close()


def operation(name: str, kind: str, **more: object) -> dict[str, object]:
    return {
        "messaging.system": "stanchion",
        "messaging.destination.name": "q",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        **{f"messaging.{one.replace('__', '.')}": value for one, value in more.items()},
    }


def test_a_block_is_received_processed_and_settled(app: Stanchion) -> None:
    job = app.queue("q").push(1)
    with trace.get_tracer("mine").start_as_current_span("consumer"):
        (reserved,) = app.queue("q").reserve()
        with reserved:
            app.queue("next").push(2)
    push, consumer = span("push q"), span("consumer")
    receive, process, settle = span("reserve q"), span("process q"), span("commit q")
    assert (receive.kind, process.kind, settle.kind) == (SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT)
    assert attributes(receive) == {**operation("reserve", "receive", message__id=job.id), **pickup(reserved)}
    assert attributes(settle) == operation("commit", "settle", message__id=job.id)
    assert [parent(one) for one in (receive, process, settle)] == [
        identity(consumer),
        identity(push),
        identity(process),
    ]
    assert links(receive) == links(process) == links(settle) == [identity(push)]
    assert parent(span("push next")) == identity(process)
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_pop_is_received(app: Stanchion) -> None:
    job = app.queue("q").push(1)
    popped = app.queue("q").pop()
    assert popped is not None
    assert app.queue("q").pop() is app.queue("q").pop(0.01) is None
    assert app.queue("q").reserve() == []
    pop = span("pop q")
    assert attributes(pop) == {**operation("pop", "receive", message__id=job.id), **pickup(popped)}
    assert links(pop) == [identity(span("push q"))]
    assert spans("reserve q") == []


def test_an_awaited_reserve_is_received(app: Stanchion) -> None:
    app.queue("q").push(1)
    assert len(asyncio.run(app.queue("q").areserve(5))) == 1
    assert links(span("reserve q")) == [identity(span("push q"))]


def test_several_are_linked_to_the_pushes_of_all(app: Stanchion) -> None:
    app.queue("q").push_many([1, 2])
    app.queue("q").push(3)
    with app.queue("q").batch(10) as jobs:
        jobs[0].bury("no")
        app.queue("next").push(1)
    many, one = (identity(push) for push in spans("push q"))
    for name in ("reserve q", "process q", "settle q"):
        assert links(span(name)) == [many, one]
        assert attributes(span(name))["messaging.batch.message_count"] == 3
    assert parent(span("push next")) == parent(span("settle q")) == identity(span("process q"))
    assert attributes(span("settle q")) == operation("settle", "settle", batch__message_count=3)


def test_links_have_a_bound(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "LINKS", 2)
    for number in range(4):
        app.queue("q").push(number)
    app.queue("q").reserve(4)
    assert links(span("reserve q")) == [identity(push) for push in spans("push q")[:2]]


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("no"), StatusCode.ERROR), (Snooze(5), StatusCode.UNSET), (None, StatusCode.UNSET)]
)
def test_an_error_of_the_block_is_one_of_its_span(
    app: Stanchion, error: BaseException | None, status: StatusCode
) -> None:
    app.queue("q").push(1)
    with suppress(ValueError, Snooze), app.queue("q").reserve()[0]:
        if error is not None:
            raise error
    assert span("process q").status.status_code is status
    assert len(spans("rollback q")) == (error is not None)


def test_a_lost_lease_is_an_error_of_the_block(app: Stanchion) -> None:
    app.queue("q").push(1)
    (reserved,) = app.queue("q").reserve()
    app.queue("q").delete()
    with pytest.raises(LeaseLost), reserved:
        pass
    assert attributes(span("process q"))["error.type"] == "stanchion.errors.LeaseLost"


def test_a_call_that_fails_is_an_error(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no store")

    job = app.queue("q").push(1)
    (reserved,) = app.queue("q").reserve()
    monkeypatch.setattr(context_of(app).store, "claim", fail)
    monkeypatch.setattr(context_of(app).store, "settle", fail)
    with pytest.raises(RuntimeError):
        app.queue("q").reserve()
    with pytest.raises(RuntimeError):
        reserved.commit()
    failed = [one for one in (*spans("reserve q"), span("commit q")) if one.status.status_code is StatusCode.ERROR]
    assert len(failed) == 2
    assert attributes(span("commit q"))["messaging.message.id"] == job.id


OFF = """
import sys
from stanchion import Stanchion
app = Stanchion("memory://")
queue = app.queue("q")
queue.push_many(range(6))
queue.pop()
for job in queue.reserve(2):
    with job:
        queue.push(7)
with queue.batch(5) as jobs:
    assert len(jobs) == 5
print({len(job.headers) for job in app.find(limit=100)}, "opentelemetry" in sys.modules)
"""


def test_nothing_without_traces() -> None:
    assert printed(OFF) == ["{0}", "False"]
