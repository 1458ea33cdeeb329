"""Types that only the program can convert: by `encode` and `decode`, else refused when a task is registered."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar
from uuid import UUID

import pytest

from stanchion import ArgumentMisfit, InvalidInput, Snooze, Stanchion, Tasks
from stanchion.context import context_of

K = TypeVar("K")


class Money:
    """An amount in cents; JSON does not have it."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return hash(self.cents)


class Speaks(Protocol):
    def speak(self) -> str: ...


@dataclass
class Bill:
    number: str
    total: Money


def encode(value: Any) -> Any:
    return {"cents": value.cents} if isinstance(value, Money) else NotImplemented


def decode(kind: type, value: Any) -> Any:
    if kind is Money:
        return Money(value["cents"])
    raise TypeError(f"unknown class {kind.__name__}")


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://", encode=encode, decode=decode)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Money, Money(5)),
        (list[Money], [Money(5), Money(7)]),
        (dict[str, Money], {"a": Money(1)}),
        (Money | None, None),
        (Money | None, Money(3)),
        (tuple[int, Money], (1, Money(2))),
        (Bill, Bill("17", Money(99))),
        (list[Bill], [Bill("17", Money(99))]),
    ],
)
def test_they_come_back(app: Stanchion, hint: Any, value: Any) -> None:
    got = []

    def take(value: Any) -> Any:
        got.append(value)
        return value

    take.__annotations__ = {"value": hint, "return": hint}
    handle = app.task(name="take")(take).enqueue(value)
    assert app.drain() == 1
    assert (got[0], handle.result(timeout=60)) == (value, value)
    assert type(got[0]) is type(value)


def test_payloads_without_a_task_are_encoded_too(app: Stanchion) -> None:
    assert app.queue("orders").push({"total": Money(5)}).payload == {"total": {"cents": 5}}


def test_a_type_that_encode_does_not_know_is_refused(app: Stanchion) -> None:
    with pytest.raises(InvalidInput, match="complex is not JSON serializable"):
        app.queue("orders").push(1j)


def test_a_stored_value_that_decode_refuses_buries_the_job(app: Stanchion) -> None:
    @app.task(name="pay")
    def pay(amount: Money) -> None: ...

    from_elsewhere = Stanchion("memory://", store=app.store)
    job = from_elsewhere.enqueue("pay", {"dollars": 5}).job()
    app.drain()
    errors = app.get(job.id).errors  # type: ignore[union-attr]
    assert "is refused by decode for Money: KeyError('cents')" in errors[-1]["error"]


def test_a_value_that_would_come_back_as_another_is_refused() -> None:
    app = Stanchion("memory://", encode=encode, decode=lambda _kind, value: Money(value["cents"] + 1))

    @app.task(name="pay")
    def pay(amount: Money) -> None: ...

    with pytest.raises(ArgumentMisfit, match="another value"):
        pay.enqueue(Money(5))


def test_an_app_with_converters_is_pickled() -> None:
    there = pickle.loads(pickle.dumps(Stanchion("sqlite:///jobs.db", encode=encode, decode=decode)))  # noqa: S301
    assert context_of(there).decode is decode
    assert context_of(there).codec.encode(Money(5)) == '{"cents":5}'


class TestWithoutConverters:
    @pytest.fixture
    def app(self) -> Stanchion:
        return Stanchion("memory://")

    @pytest.mark.parametrize(
        ("hint", "place"),
        [
            (Money, "Money"),
            (list[Money], "Money"),
            (Bill, "Bill.total"),
            (dict[UUID, int], "dict"),
            (complex, "complex"),
            (Money | UUID, "Money"),
        ],
    )
    def test_a_type_that_can_not_be_carried_is_refused_when_the_task_is_registered(
        self, app: Stanchion, hint: Any, place: str
    ) -> None:
        def take(value: Any) -> None: ...

        take.__annotations__ = {"value": hint}
        with pytest.raises(InvalidInput, match=rf"task take can't carry parameter 'value': .*{place}"):
            app.task(name="take")(take)
        assert "take" not in app.tasks

    def test_so_is_a_result(self, app: Stanchion) -> None:
        def make() -> Money:
            return Money(1)

        with pytest.raises(InvalidInput, match=r"can't carry its result: .*Money"):
            app.task(make)

    def test_a_parameter_that_a_call_may_leave_out_is_not(self, app: Stanchion) -> None:
        @app.task(name="pay")
        def pay(order: int, account: Money | None = None, *more: Money, **named: Money) -> int:
            del account, more, named
            return order

        handle = pay.enqueue(5)
        app.drain()
        assert handle.result(timeout=60) == 5

    @pytest.mark.parametrize(
        "hint",
        [
            Mapping,
            Iterable[int],
            Speaks,
            K,
            Any,
            object,
            int | Snooze,
            "Nowhere",
            dict[str, list[int]],
            dict | None,
            Annotated[int, "n"],
        ],
    )
    def test_what_may_be_plain_is_not(self, app: Stanchion, hint: Any) -> None:
        def take(value: Any) -> Any:
            return value

        take.__annotations__ = {"value": int if hint == int | Snooze else hint, "return": hint}
        app.task(name="take")(take)

    def test_tasks_of_a_package_are_checked_by_the_app_that_registers_them(self, app: Stanchion) -> None:
        tasks = Tasks()

        @tasks.task(name="pay")
        def pay(amount: Money) -> None: ...

        with pytest.raises(InvalidInput, match="can't carry"):
            app.register(tasks)
        Stanchion("memory://", encode=encode, decode=decode).register(tasks)
