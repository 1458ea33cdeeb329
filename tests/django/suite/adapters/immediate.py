"""In the place of Django's immediate backend, which runs a task within its enqueue, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stanchion import Retry, Stanchion
from stanchion.django import StanchionBackend
from stanchion.django.databases.database import in_transaction
from stanchion.django.tasks.shared import shared


class ImmediateBackend(StanchionBackend):
    """Runs a stored task before it returns its result."""

    @property
    def app(self) -> Stanchion:
        return shared(self.alias, {**self.options, "retry": Retry(1)})

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        result = super().enqueue(task, args, kwargs)
        if not in_transaction("default"):  # no other connection sees the task before the commit
            self.app.drain([task.queue_name])
            result.refresh()
        return result
