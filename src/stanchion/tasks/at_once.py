"""Running jobs as soon as they are due, within the call that made them so; for tests."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from stanchion.context.context import Context
from stanchion.stores.records.query import Condition, Query
from stanchion.tasks.inline import drained

_RUNNING: Final[ContextVar[bool]] = ContextVar("stanchion_runs_at_once", default=False)
"""Whether the present call belongs to a job that runs at once: what it enqueues runs when that attempt has ended."""


class AtOnce:
    """Runs due jobs whenever the store has changed."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self) -> None:
        """Run all due jobs that this process has the code for, unless a job that runs at once has made this call."""
        if _RUNNING.get():
            return
        token = _RUNNING.set(True)
        try:
            while drained(self._context, self._queues()):
                pass
        finally:
            _RUNNING.reset(token)

    def next_due(self, after: int) -> int | None:
        """Return the earliest time after this one at which a job is due."""
        stats = self._context.store.stats(self._queues(), {"next_due"})
        return min((one.next_due for one in stats.values() if one.next_due and one.next_due > after), default=None)

    def _queues(self) -> list[str]:
        """Return the queues of tasks and stations, and others that hold calls of these tasks."""
        own, store = self._context.registry.own_queues(), self._context.store
        others = sorted({queue.name for queue in store.queues()} - set(own))
        tasks = list(self._context.registry.tasks)
        return own + [name for name in others if tasks and _holds(self._context, name, tasks)]


def _holds(context: Context, queue: str, tasks: list[str]) -> bool:
    """Return whether a queue holds a call of one of these tasks."""
    of_tasks = (Condition("queue", "=", queue), Condition("task", "in", tuple(tasks)))
    return bool(context.store.select(Query("live", of_tasks, limit=1)).rows)
