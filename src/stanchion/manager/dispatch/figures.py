"""The figures of dispatch: counted as things happen, and put together when somebody asks."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class QueueFigures(NamedTuple):
    """A queue of which this manager owns slices, or did.

    `window`: keys in memory. `lag`: seconds since the time at which the next job was due; 0: none waits. `in_flight`:
    jobs at receivers. Since the start: `sent` jobs; outcomes stored that ended a job (`acknowledged`), or gave it back
    (`postponed`); jobs that the manager gave back as their receiver was gone (`expired`); jobs given back that no
    receiver had begun (`unsent`); calls of the store that had jobs of the queue (`statements`), which are one statement
    each on PostgreSQL for plain jobs, and may be several elsewhere.
    """

    queue: str
    slices: int
    window: int
    lag: float
    in_flight: int
    sent: int
    acknowledged: int
    postponed: int
    expired: int
    unsent: int
    statements: int


class ReceiverFigures(NamedTuple):
    """A receiver. `silent`: seconds since it was heard; `slow`: True if that is more than its stamps allow."""

    id: str
    worker: str
    capacity: int
    in_flight: int
    connected: bool
    silent: float
    slow: bool


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
