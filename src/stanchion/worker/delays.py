"""How long jobs had been due when this worker took them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import quantiles
from typing import Any

from stanchion.stores.records.jobs import SECOND, JobRow

LATEST = 1000
"""So many jobs of each queue are remembered."""


class PickupDelays:
    """The pick-up delays of the latest jobs, by queue. One thread adds, any may ask."""

    def __init__(self) -> None:
        self._delays: dict[str, deque[int]] = {}

    def add(self, queue: str, rows: Iterable[JobRow]) -> None:
        """Take note of jobs that were claimed."""
        latest = self._delays.setdefault(queue, deque(maxlen=LATEST))
        latest.extend((row.started_at or row.run_at) - row.run_at for row in rows)

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return for each queue how many jobs this tells of, and their delays in seconds: median, 99 %, largest."""
        return {queue: _summary(sorted(latest.copy())) for queue, latest in self._delays.copy().items() if latest}


def _summary(delays: list[int]) -> dict[str, Any]:
    cuts = quantiles(delays, n=100, method="inclusive") if len(delays) > 1 else delays * 99
    middle, high, most = (max(0, each) / SECOND for each in (cuts[49], cuts[98], delays[-1]))
    return {"jobs": len(delays), "p50": round(middle, 6), "p99": round(high, 6), "max": round(most, 6)}
