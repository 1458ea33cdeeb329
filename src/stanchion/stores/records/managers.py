"""The figures of managers."""

from __future__ import annotations

from typing import NamedTuple


class QueueFigures(NamedTuple):
    """A queue with slices that this manager owns, or did.

    `window`: keys in memory. `lag`: seconds since the next job became due; 0: none waits. `in_flight`: jobs at
    receivers. Since the start: `sent` jobs; stored outcomes, by streams and calls, that ended a job (`acknowledged`),
    or returned it (`postponed`); jobs returned because their receiver was gone (`expired`), or before any receiver had
    begun them (`unsent`); store calls with jobs of the queue (`statements`), one statement each on PostgreSQL for plain
    jobs, possibly several elsewhere.
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


class ManagerStatus(NamedTuple):
    """Figures of a manager. `statements`: store calls for dispatch since its start, including window reads.

    `pushes`, `outcomes`: numbers waiting to be stored. For a manager that did not answer only the address is known.
    """

    address: str
    session: str = ""
    draining: bool = False
    store_answers: bool = False
    statements: int = 0
    pushes: int = 0
    outcomes: int = 0
    queues: tuple[QueueFigures, ...] = ()
    receivers: tuple[ReceiverFigures, ...] = ()

    @property
    def answered(self) -> bool:
        """True if the manager has answered."""
        return bool(self.session)
