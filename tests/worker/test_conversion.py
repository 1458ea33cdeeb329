"""Arguments and results that JSON does not have: stored as plain values, and made again by annotation."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import numpy as np
import pytest
from pydantic import BaseModel

from stanchion import InvalidInput, ResultMisfit, Snooze, Stanchion, chain, group

ID = UUID("0195f2c0-0000-7000-8000-000000000001")
NOON = datetime(2026, 5, 1, 12, 30, 0, 125, tzinfo=timezone(timedelta(hours=2)))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Odd(enum.Enum):
    ONE = 1
    TWO = "two"
    THREE = (3, "three")


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: Decimal
    at: datetime


Pair = namedtuple("Pair", ["left", "right"])


class Row(TypedDict):
    id: UUID
    note: NotRequired[bytes]


@dataclass
class Order:
    id: UUID
    placed: datetime
    took: timedelta
    parts: set[Color] = field(default_factory=set)
    blob: bytes = b""
    where: Path = Path()


@attrs.define
class Item:
    _secret: bytes
    when: date
    of: list[Order] = attrs.field(factory=list)


class Account(BaseModel):
    id: UUID
    opened: datetime


ORDER = Order(ID, NOON, timedelta(days=-1, microseconds=5), {Color.RED, Color.BLUE}, b"\x00\xff", Path("/tmp/x"))

CASES: list[tuple[Any, Any, Any]] = [
    (UUID, ID, str(ID)),
    (datetime, NOON, "2026-05-01T12:30:00.000125+02:00"),
    (datetime, datetime(2026, 5, 1), "2026-05-01T00:00:00"),
    (date, date(2026, 5, 1), "2026-05-01"),
    (time, time(12, 30, tzinfo=UTC), "12:30:00+00:00"),
    (timedelta, timedelta(days=400, seconds=5), 34560005),
    (timedelta, timedelta(microseconds=-1), -1e-06),
    (Decimal, Decimal("1.12345678901234567890123456789"), "1.12345678901234567890123456789"),
    (Color, Color.BLUE, "blue"),
    (Odd, Odd.THREE, [3, "three"]),
    (Odd, Odd.ONE, 1),
    (Level, Level.LOW, 1),
    (Path, Path("/srv/a b"), "/srv/a b"),
    (PurePosixPath, PurePosixPath("a/b"), "a/b"),
    (bytes, b"\x00\xff", "AP8="),
    (bytearray, bytearray(b"ab"), "YWI="),
    (set[int], {10, 2}, [2, 10]),
    (frozenset[UUID], frozenset({ID}), [str(ID)]),
    (tuple[int, UUID], (1, ID), [1, str(ID)]),
    (tuple[date, ...], (date(2026, 5, 1),), ["2026-05-01"]),
    (tuple, (1, 2), [1, 2]),
    (set, {1}, [1]),
    (Point, Point(Decimal("1.5"), NOON), ["1.5", NOON.isoformat()]),
    (Pair, Pair(1, "b"), [1, "b"]),
    (Row, {"id": ID, "note": b"x"}, {"id": str(ID), "note": "eA=="}),
    (Row, {"id": ID}, {"id": str(ID)}),
    (Item, Item(b"s", date(2026, 5, 1), [ORDER]), None),
    (Order, ORDER, None),
    (Account, Account(id=ID, opened=NOON), None),
    (list[Order], [ORDER, ORDER], None),
    (dict[str, UUID], {"a": ID}, {"a": str(ID)}),
    (dict[str, list[tuple[Color, bytes]]], {"a": [(Color.RED, b"x")]}, {"a": [["red", "eA=="]]}),
    (Order | None, None, None),
    (Order | None, ORDER, None),
    (UUID | int, ID, str(ID)),
    (UUID | int, 5, 5),
    (int | bytes, b"ab", "YWI="),
    (Annotated[UUID, "of an order"], ID, str(ID)),
    (list[Account], [Account(id=ID, opened=NOON)], None),
]


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


def annotated(hint: Any, body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(value: Any) -> Any:
        return body(value)

    function.__annotations__ = {"value": hint, "return": hint}
    return function


@pytest.mark.parametrize(("hint", "value", "stored"), CASES, ids=lambda one: str(one)[:40])
def test_a_value_makes_an_exact_round_trip(app: Stanchion, hint: Any, value: Any, stored: Any) -> None:
    got: list[Any] = []

    def body(given: Any) -> Any:
        got.append(given)
        return given

    task = app.task(name="task")(annotated(hint, body))
    handle = task.enqueue(value)
    job = handle.job()
    if stored is not None:
        assert job.payload == {"args": [stored]}
    app.drain()
    assert handle.job().errors == []
    result = handle.result(timeout=60)
    assert (got, result) == ([value], value)
    assert type(got[0]) is type(result) is type(value)
    if isinstance(value, datetime):
        assert got[0].utcoffset() == value.utcoffset()


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        *((UUID, 5), (UUID, "no id"), (datetime, "soon"), (timedelta, "1 d"), (Decimal, "x"), (bytes, "no base64!")),
        *(
            (Color, "green"),
            (Odd, 2),
            (set[int], 5),
            (tuple[int, int], (1, 2, 3)),
            (Row, {}),
            (Row, {"id": ID, "x": 1}),
        ),
        *((dict[str, UUID], {"a": "b"}), (list[Order], [1]), (frozenset[list[int]], [[1]]), (UUID | int, "x")),
    ],
    ids=lambda one: str(one)[:40],
)
def test_a_value_of_another_type_is_refused_at_the_enqueue(app: Stanchion, hint: Any, value: Any) -> None:
    task = app.task(name="task")(annotated(hint, lambda given: given))
    with pytest.raises(InvalidInput, match="the argument value of task 'task'"):
        task.enqueue(value)
    assert app.find() == []


def test_a_stored_value_of_another_type_buries_the_job(app: Stanchion) -> None:
    Stanchion(store=app.store).using("task").enqueue("no id")
    app.task(name="task")(annotated(UUID, lambda given: given))
    app.drain()
    (job,) = app.find()
    assert "the argument value of task 'task' does not fit UUID" in job.errors[-1]["error"]


def test_values_go_through_flows(app: Stanchion) -> None:
    @app.task(name="first")
    def first(day: date) -> tuple[UUID, date]:
        return ID, day

    @app.task(name="second")
    def second(pair: tuple[UUID, date], blob: bytes) -> set[bytes]:
        return {blob, str(pair[1]).encode(), pair[0].bytes}

    handle = chain(first.s(date(2026, 5, 1)), second.s(b"x")).enqueue()
    many = group(first.s(date(2026, 5, n)) for n in (1, 2)).enqueue()
    app.drain()
    assert handle.result(timeout=60) == {b"x", b"2026-05-01", ID.bytes}
    assert many.result(timeout=60) == [(ID, date(2026, 5, 1)), (ID, date(2026, 5, 2))]


def test_a_result_is_converted_beside_outcomes(app: Stanchion) -> None:
    @app.task(name="task")
    def task(attempt: int) -> UUID | Snooze | None:
        return ID if attempt else None

    handle, none = task.enqueue(1), task.enqueue(0)
    app.drain()
    assert (handle.result(timeout=60), none.result(timeout=60)) == (ID, None)


def test_a_result_of_another_type_ends_the_job(app: Stanchion) -> None:
    task = app.task(name="task")(annotated(tuple[UUID, int], lambda given: given[:1]))
    handle = task.enqueue((ID, 1))
    app.drain()
    assert (
        "ResultMisfit" in handle.job().errors[-1]["error"] or "the result of task" in handle.job().errors[-1]["error"]
    )
    assert issubclass(ResultMisfit, InvalidInput)


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (np.int64(5), r"pass its item\(\)"),
        (np.bool_(True), r"pass its item\(\)"),
        (np.array([1]), r"pass its tolist\(\)"),
        ({"x": np.float32(5)}, r"pass its item\(\)"),
        (ID, "annotate the parameter"),
        (b"x", "annotate the parameter"),
        (Item(b"s", date(2026, 5, 1)), "annotate the parameter"),
    ],
)
def test_what_can_t_be_stored_says_what_to_pass(app: Stanchion, value: Any, instead: str) -> None:
    @app.task(name="task")
    def task(value: Any) -> None: ...

    with pytest.raises(InvalidInput, match=instead):
        task.enqueue(value)


def test_an_equal_call_is_found_by_assert_enqueued(app: Stanchion) -> None:
    task = app.task(name="task")(annotated(set[str], lambda given: given))
    task.enqueue({"b", "a", "c"})
    app.assert_enqueued(task, ({"c", "b", "a"},))
