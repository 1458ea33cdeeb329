"""In the place of Django's dummy backend, whose list of results tests read and empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stanchion.django import StanchionBackend


class DummyBackend(StanchionBackend):
    """Remembers the ids of its results."""

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self._ids: list[str] = []

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        result = super().enqueue(task, args, kwargs)
        self._ids.append(result.id)
        return result

    @property
    def results(self) -> list[Any]:
        return [self.get_result(one) for one in self._ids]

    def clear(self) -> None:
        for queue in self.app.queues():
            queue.delete()
        self._ids.clear()
