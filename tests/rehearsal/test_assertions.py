"""`assert_enqueued` finds the jobs of a call, and says what was enqueued instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from stanchion import Job, Stanchion
from stanchion.errors import InvalidInput

app = Stanchion("sqlite:///never-touched.db")


@dataclass
class Order:
    id: int


@app.task(name="send", queue="mail")
def send(user: int, *, copy: bool = False) -> None: ...


@app.task(name="bill", queue="money")
def bill(order: Order, job: Job) -> None: ...


@pytest.fixture(autouse=True)
def store() -> Iterator[None]:
    with app.testing():
        yield


def message(*args: object, **kwargs: object) -> str:
    with pytest.raises(AssertionError) as error:
        app.assert_enqueued(*args, **kwargs)  # type: ignore[arg-type]
    return str(error.value)


def test_calls_are_compared_by_parameter() -> None:
    handle = send.enqueue(7, copy=True)
    for args, kwargs in (((7,), {"copy": True}), ((), {"user": 7, "copy": True}), (None, {"user": 7, "copy": True})):
        assert [job.id for job in app.assert_enqueued(send, args, kwargs)] == [handle.id]
    assert [job.id for job in app.assert_enqueued("send")] == [handle.id]
    assert "found none" in message(send, (7,))


def test_models_and_injected_parameters() -> None:
    bill.enqueue(Order(1))  # type: ignore[call-arg]
    app.assert_enqueued(bill, (Order(1),), times=1)
    app.assert_enqueued("bill", kwargs={"order": Order(1)})
    assert "found none" in message(bill, (Order(2),))


def test_live_and_finished_jobs_count_in_order() -> None:
    first = send.enqueue(1)
    app.drain()
    second = send.enqueue(1)
    assert [job.id for job in app.assert_enqueued(send, (1,), times=2)] == [first.id, second.id]
    app.assert_enqueued(bill, times=0)
    assert "expected no job that calls send, found 2" in message(send, times=0)
    assert "expected 3 jobs that call send(1), found 2" in message(send, (1,), times=3)


def test_a_task_of_another_program() -> None:
    app.enqueue("elsewhere", 1, {"a": [2]})
    app.assert_enqueued("elsewhere", (1, {"a": [2]}))
    assert "elsewhere(2)" in message("elsewhere", (2,))


def test_the_message_lists_what_was_enqueued_instead() -> None:
    assert message(send, (7,)) == ("expected at least one job that calls send(7), found none. Nothing was enqueued.")
    send.enqueue(8)
    send.enqueue(8)
    app.drain()
    send.using(delay=60).enqueue(9)
    app.queue("raw").push({"a": 1})
    bill.enqueue(Order(1))  # type: ignore[call-arg]
    assert message(send, (7,)).splitlines() == [
        "expected at least one job that calls send(7), found none. Enqueued were:",
        "  2 times send(8), done",
        "  1 times send(9), scheduled",
        "  1 times a payload in queue 'raw', ready",
        "  1 times bill({'id': 1}), ready",
    ]


def test_many_calls_are_cut() -> None:
    for user in range(30):
        send.enqueue(user)
    assert message(send, (77,)).splitlines()[-1] == "  and 10 other calls"
    app.enqueue("elsewhere", "x" * 1000)
    assert max(map(len, message(send, (77,)).splitlines())) < 300


def test_an_open_transaction_is_named() -> None:
    with Session(create_engine("sqlite://")) as session:
        send.using(tx=session).enqueue(7)
        assert "1 call waits for the commit of its transaction" in message(send, (7,))
        session.rollback()
        assert "commit" not in message(send, (7,))


@pytest.mark.parametrize("times", [-1, True, "2"])
def test_strange_numbers(times: int) -> None:
    with pytest.raises(InvalidInput, match="times"):
        app.assert_enqueued(send, times=times)
