"""The workers that a limited caller may act for: workers that serve only its queues.

A heartbeat keeps the jobs of its worker from others; a goodbye, or another process of the worker, gives them away. The
first heartbeat of a worker makes its row, so an id without one is free: unless jobs run under it, whose worker has lost
its row. Their queues decide then, as a new row would keep them from recovery.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stanchion.errors import NotPermitted
from stanchion.manager.server.tokens import Caller
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.workers import WorkerRow

Args = Mapping[str, Any]

_SEEN_FOR: Final = 2.0
"""Seconds that rows and jobs are cached: heartbeats of a fleet would read its rows again and again."""
_RUNNING: Final = (Condition("state", "=", JobState.RUNNING.value),)


def queues_of(row: WorkerRow) -> Iterator[str]:
    """Yield the queues that a worker says something about."""
    yield from row.queues
    yield from (one.queue for one in row.lanes)
    yield from (one.queue for one in row.times)


class OwnWorkers:
    """Checks the ids of workers in calls against one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: tuple[float, dict[str, WorkerRow]] = -math.inf, {}
        self._running: tuple[float, dict[str, set[str]]] = -math.inf, {}

    def check(self, caller: Caller, verb: str, args: Args) -> None:
        """Raise NotPermitted if a limited caller speaks for a worker with queues of others. It may read the store."""
        if caller.queues is None:
            return
        for worker in _named(verb, args):
            row = self._stored(worker)
            served = self._queues_under(worker) if row is None else queues_of(row)
            if not all(map(caller.reaches, served)):
                raise NotPermitted(
                    f"the token of {caller.name} may not call {verb} for the worker {worker}, which serves queues "
                    f"outside the token's"
                )

    def _stored(self, worker: str) -> WorkerRow | None:
        seen_at, rows = self._seen
        if worker not in rows or time.monotonic() - seen_at > _SEEN_FOR:
            rows = {row.id: row for row in self._store.workers()}
            self._seen = time.monotonic(), rows
        return rows.get(worker)

    def _queues_under(self, worker: str) -> set[str]:
        """Return the queues of running jobs whose worker this is."""
        read_at, queues = self._running
        if time.monotonic() - read_at > _SEEN_FOR:
            queues = {}
            for page in pages(self._store, Query("live", _RUNNING, order="id", columns=("queue", "worker"))):
                for queue, holder in page:
                    queues.setdefault(holder or "", set()).add(queue)
            self._running = time.monotonic(), queues
        return queues.get(worker, set())


def _named(verb: str, args: Args) -> Iterator[str]:
    if verb == "beat":
        yield from (row.id for row in args["workers"])
    elif verb == "leave":
        yield args["worker"]
