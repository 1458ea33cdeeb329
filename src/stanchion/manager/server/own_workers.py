"""The workers that a limited caller may speak for: those that serve its queues alone.

A heartbeat keeps the jobs of its worker from others; a goodbye, or another process of the worker, gives them away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stanchion.errors import NotPermitted
from stanchion.manager.server.tokens import Caller
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import WorkerRow

Args = Mapping[str, Any]

_SEEN_FOR: Final = 2.0
"""Seconds for which a stored row is not read again: heartbeats of a fleet would read its rows again and again."""


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

    def check(self, caller: Caller, verb: str, args: Args) -> None:
        """Raise NotPermitted if a limited caller speaks for a worker with queues of others. It may read the store."""
        if caller.queues is None:
            return
        for worker in _named(verb, args):
            row = self._stored(worker)
            if row is not None and not all(map(caller.reaches, queues_of(row))):
                raise NotPermitted(
                    f"the token of {caller.name} may not call {verb} for the worker {worker}, which serves queues "
                    f"beyond those of the token"
                )

    def _stored(self, worker: str) -> WorkerRow | None:
        seen_at, rows = self._seen
        if worker not in rows or time.monotonic() - seen_at > _SEEN_FOR:
            rows = {row.id: row for row in self._store.workers()}
            self._seen = time.monotonic(), rows
        return rows.get(worker)


def _named(verb: str, args: Args) -> Iterator[str]:
    if verb == "beat":
        yield from (row.id for row in args["workers"])
    elif verb == "leave":
        yield args["worker"]
