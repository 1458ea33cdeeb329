"""Tasks whose arguments are models: checked where they are enqueued, and given to the function as models."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from stanchion import Job, JobState, Stanchion, chain
from stanchion.errors import ArgumentMisfit
from stanchion_conformance.harness import QUEUE

WHEN = datetime(2031, 5, 1, 8, tzinfo=UTC)


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Line:
    article: str
    price: Decimal
    size: Size = Size.SMALL


@dataclass
class Order:
    id: int
    at: datetime
    lines: list[Line] = field(default_factory=list)
    notes: dict[str, tuple[int, ...]] | None = None
    weight: float = 1.5


ORDER = Order(7, WHEN, [Line("a", Decimal("1.50"), Size.LARGE)], {"n": (1, 2)})

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls() -> Calls:
    """The arguments with which the task was called."""
    return []


@pytest.fixture
def bill(app: Stanchion, calls: Calls) -> Any:
    """A task that takes a model, the job, and another model that may be None."""

    @app.task(name="bill", queue=QUEUE, max_attempts=1)
    def bill(order: Order, job: Job, times: int = 1, *, line: Line | None = None) -> None:
        calls.append((order, type(job).__name__, times, line))

    return bill


class TestTaskModels:
    def test_the_function_gets_the_model(self, app: Stanchion, bill: Any, calls: Calls) -> None:
        line = Line("b", Decimal(2))
        bill.enqueue(ORDER, 2, line=line)
        bill.enqueue({"id": 8, "at": "2031-05-01T08:00:00Z", "weight": 2, "lines": None}, line=None)
        bill.enqueue_many([(ORDER,), {"order": ORDER, "line": {"article": "c", "price": "3"}}])
        app.drain([QUEUE])
        assert calls == [
            (ORDER, "Reservation", 2, line),
            (Order(8, WHEN, weight=2.0), "Reservation", 1, None),
            (ORDER, "Reservation", 1, None),
            (ORDER, "Reservation", 1, Line("c", Decimal(3))),
        ]

    def test_the_store_has_plain_values(self, app: Stanchion, bill: Any) -> None:
        handle = bill.enqueue(ORDER)
        (stored,) = handle.job().payload["args"]
        assert stored == {
            **{"id": 7, "at": WHEN.isoformat(), "lines": [{"article": "a", "price": "1.50", "size": "l"}]},
            **{"notes": {"n": [1, 2]}, "weight": 1.5},
        }
        assert [job.id for job in app.assert_enqueued(bill, (ORDER,))] == [handle.id]

    @pytest.mark.parametrize(
        ("order", "path"),
        [
            ({"at": WHEN.isoformat()}, "id"),
            ({"id": "7", "at": WHEN.isoformat()}, "id"),
            ({"id": 7, "at": "2031-05-01"}, "at"),
            ({"id": 7, "at": WHEN.isoformat(), "lines": [{"article": "a", "price": "x"}]}, "lines[0].price"),
            (
                {"id": 7, "at": WHEN.isoformat(), "lines": [{"article": "a", "price": "1", "size": "m"}]},
                "lines[0].size",
            ),
            ({"id": 7, "at": WHEN.isoformat(), "color": "red"}, "color"),
            (Order("7", WHEN), "id"),  # type: ignore[arg-type]
            (7, ""),
            (None, ""),
        ],
    )
    def test_a_call_that_does_not_fit_is_not_stored(self, app: Stanchion, bill: Any, order: Any, path: str) -> None:
        for call in (partial(bill.enqueue, order), partial(bill.enqueue_many, [(ORDER,), (order,)])):
            with pytest.raises(ArgumentMisfit) as refused:
                call()
            assert (refused.value.task, refused.value.argument, refused.value.field) == ("bill", "order", path)
        with pytest.raises(ArgumentMisfit):
            app.using("bill").enqueue(order)
        assert app.queue(QUEUE).size().total == 0

    def test_a_call_of_another_release(self, app: Stanchion, other_app: Stanchion, bill: Any, calls: Calls) -> None:
        assert bill.name == "bill"
        newer = {"id": 7, "at": WHEN.isoformat(), "color": "red", "lines": [{"article": "a", "price": 1, "x": 1}]}
        good = other_app.enqueue("bill", newer, queue=QUEUE)
        bad = other_app.enqueue("bill", {"id": 7}, queue=QUEUE)
        app.drain([QUEUE])
        assert calls == [(Order(7, WHEN, [Line("a", Decimal(1))]), "Reservation", 1, None)]
        assert (good.state, bad.state) == (JobState.DONE, JobState.DEAD)
        assert "field at is missing" in str(bad.job().errors)

    def test_values_of_flows_are_given_as_models(self, app: Stanchion, bill: Any, calls: Calls) -> None:
        @app.task(name="make", queue=QUEUE)
        def make(id_: int) -> Order:
            return Order(id_, WHEN)

        chain(make.s(9), bill.s(3)).enqueue()
        app.drain([QUEUE])
        assert calls == [(Order(9, WHEN), "Reservation", 3, None)]

    def test_models_of_pydantic(self, app: Stanchion, calls: Calls) -> None:
        pydantic = pytest.importorskip("pydantic")
        model = pydantic.create_model(
            "Parcel", id=(int, ...), at=(datetime | None, None), gross=(int, pydantic.Field(1, gt=0))
        )

        def ship(parcel: Any) -> None:
            calls.append((parcel,))

        ship.__annotations__["parcel"] = model
        task: Any = app.task(name="ship", queue=QUEUE)(ship)
        task.enqueue(model(id=1, at=WHEN))
        task.enqueue({"id": 2})
        for wrong, path in (({"id": "x"}, "id"), ({}, "id"), ({"id": 1, "gross": 0}, "gross"), ([], "")):
            with pytest.raises(ArgumentMisfit) as refused:
                task.enqueue(wrong)
            assert (refused.value.argument, refused.value.field) == ("parcel", path)
        app.drain([QUEUE])
        assert calls == [(model(id=1, at=WHEN),), (model(id=2),)]
