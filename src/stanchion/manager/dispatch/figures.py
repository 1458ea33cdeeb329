"""The figures of dispatch: counted as things happen, and put together on request."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from stanchion.stores.records.managers import QueueFigures, ReceiverFigures
from stanchion.stores.records.outcomes import Extend, Outcome, Progress, Rollback


class EngineStatus(NamedTuple):
    """Figures of the engine. `statements`: calls of the store, including reads of windows; see QueueFigures.

    `pushes`, `outcomes`: numbers waiting to be stored.
    """

    queues: tuple[QueueFigures, ...]
    receivers: tuple[ReceiverFigures, ...]
    statements: int
    pushes: int
    outcomes: int
    store_answers: bool


class Counts:
    """Events since the start, by queue."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.acknowledged: Counter[str] = Counter()
        self.postponed: Counter[str] = Counter()
        self.expired: Counter[str] = Counter()
        self.unsent: Counter[str] = Counter()

    def ended(self, outcome: Outcome) -> None:
        """Count an outcome that is stored now."""
        queue = outcome.lease.queue
        if isinstance(outcome, Extend | Progress):
            return
        if not isinstance(outcome, Rollback):
            self.acknowledged[queue] += 1
        elif outcome.refund and outcome.error is None:
            self.unsent[queue] += 1
        else:
            self.postponed[queue] += 1

    def queues(self) -> set[str]:
        """Return the queues that have any."""
        return {*self.sent, *self.acknowledged, *self.postponed, *self.expired, *self.unsent}
