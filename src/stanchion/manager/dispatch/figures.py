"""The figures of dispatch: counted as things happen, and put together on request."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from stanchion.stores.records.managers import QueueFigures, ReceiverFigures


class EngineStatus(NamedTuple):
    """What the engine does. `statements`: calls of the store, reads of windows included; see QueueFigures.

    `pushes`, `outcomes`: those that wait to be stored.
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

    def queues(self) -> set[str]:
        """Return the queues that have any."""
        return {*self.sent, *self.acknowledged, *self.postponed, *self.expired, *self.unsent}
