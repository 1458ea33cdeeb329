"""The annotations of a task are read when it is registered."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, get_type_hints

import pytest

from stanchion import Job, Stanchion


@dataclass
class Order:
    number: int


def test_they_are_resolved_once_for_a_task_with_models_and_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: Counter[Any] = Counter()

    def counted(function: Any, **options: Any) -> dict[str, Any]:
        resolved[function] += 1
        return get_type_hints(function, **options)

    monkeypatch.setattr("stanchion.tasks.parameters.get_type_hints", counted)

    def pay(job: Job, order: Order) -> Order:
        return Order(order.number + job.attempts)

    app = Stanchion("memory://")
    handle = app.task(name="pay")(pay).enqueue(Order(17))
    assert app.drain() == 1
    assert handle.result() == Order(18)
    assert resolved[pay] == 1
