"""The figures of the last two days, kept by the minute: read at most once in a minute for each queue."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from stanchion.stores.protocol import Store
from stanchion.telemetry import rollups
from stanchion.telemetry.rollups import HOURS_KEPT, MINUTE, Point

QUEUES_MAX: Final = 32
"""Queues whose figures are remembered, the last requested ones."""


class Past:
    """Reads the past of queues, and caches it for the rest of the minute."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read: OrderedDict[str, tuple[int, list[Point]]] = OrderedDict()

    def of(self, queue: str, now: int) -> list[Point]:
        """Return the points of a queue, or of `rollups.ALL`, oldest first. Raises StanchionError."""
        with self._lock:
            minute, points = self._read.get(queue, (-1, []))
            if minute != now // MINUTE:
                points = rollups.past(self._store(), [queue], HOURS_KEPT, now)[queue]
                self._read[queue] = now // MINUTE, points
            self._read.move_to_end(queue)
            if len(self._read) > QUEUES_MAX:
                self._read.popitem(last=False)
        return points
