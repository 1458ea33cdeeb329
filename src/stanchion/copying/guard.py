"""The guard: allows one copy of a queue at a time, by heartbeats in both stores, like a worker's.

    waiting ──no other copy in either store──► running ──► leaves
       ▲  └──another one: leaves, and asks again──┐
       └──────────────────────────────────────────┘

If two ask concurrently, at least one sees the other, as each writes its row before it reads. A copy that died
disappears after three heartbeats. A copy that was suspended for as long finds, before it writes anything, that its own
row is late or that another copy is running.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput, StanchionError, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.liveness import MISSED_BEATS, alive

HEARTBEAT = 5.0
"""Seconds between heartbeats; three of them are longer than any call to a store."""

_PREFIX = "copy-"
_WAITING, _RUNNING = "waiting", "running"
_PROOF = 1.0
"""Seconds that one check of both stores is valid."""


class CopyRefused(StanchionError):
    """Another copy of one of these queues is running."""


class Guard:
    """Excludes other copies of these queues, in both stores."""

    def __init__(self, source: Store, destination: Store, queues: Sequence[str], heartbeat: float = HEARTBEAT) -> None:
        self._source, self._destination = source, destination
        self._row = WorkerRow(
            f"{_PREFIX}{new_id()}", socket.gethostname(), os.getpid(), tuple(queues), threads=0, heartbeat=heartbeat
        )
        self._proved = 0.0

    @contextmanager
    def hold(self, standing_by: Callable[[WorkerRow], None]) -> Iterator[None]:
        """Be the only copy within the block; wait for one that may have died, until its heartbeat is too old."""
        try:
            self._enter(standing_by)
            yield
        finally:
            self._leave()

    def stand(self) -> None:
        """Check that this is still the only copy. Raises CopyRefused if it was suspended for too long."""
        now = time.monotonic()
        if now - self._proved < _PROOF:
            return
        for store in (self._source, self._destination):
            mine = next((row for row in store.workers() if row.id == self._row.id), None)
            others = [row for row in self._others(store) if row.state == _RUNNING]
            if mine is None or not alive(mine, store.now()) or others:
                raise CopyRefused(
                    "another copy may have taken over, as this one was suspended for too long; run it again"
                )
            store.beat([self._row])
        self._proved = now

    def sleep(self, seconds: float) -> None:
        """Sleep, with heartbeats."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _PROOF))
            self.stand()

    def _enter(self, standing_by: Callable[[WorkerRow], None]) -> None:
        deadline = time.monotonic() + (MISSED_BEATS + 1) * self._row.heartbeat
        while (other := self._ask()) is not None:
            self._leave()
            if time.monotonic() > deadline:
                raise CopyRefused(
                    f"process {other.pid} on {other.host} is copying {', '.join(other.queues)}; wait until it has ended"
                )
            standing_by(other)
            time.sleep(random.uniform(0.2, 0.8))  # noqa: S311 - so that two copies do not refuse each other for ever
        self._proved = time.monotonic()

    def _ask(self) -> WorkerRow | None:
        """Become the only copy, or return another one that is live."""
        asking = replace(self._row, state=_WAITING)
        self._source.beat([asking])
        if any(row.id == asking.id for row in self._destination.workers()):
            raise InvalidInput("both URLs are the same store; copy to another one")
        self._destination.beat([asking])
        for store in (self._source, self._destination):
            if others := self._others(store):
                return others[0]
        for store in (self._source, self._destination):
            store.beat([self._row])
        return None

    def _others(self, store: Store) -> list[WorkerRow]:
        """Return the other live copies of any of these queues."""
        now, mine = store.now(), set(self._row.queues)
        return [
            row
            for row in store.workers()
            if row.id.startswith(_PREFIX)
            and row.id != self._row.id
            and alive(row, now)
            and not mine.isdisjoint(row.queues)
        ]

    def _leave(self) -> None:
        with suppress(StoreUnavailable):  # then its row expires
            self._source.leave(self._row.id)
            self._destination.leave(self._row.id)
