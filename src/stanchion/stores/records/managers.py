"""The figures of managers."""

from __future__ import annotations

from typing import NamedTuple


class QueueFigures(NamedTuple):
    """A queue of which this manager owns slices, or did.

    `window`: keys in memory. `lag`: seconds since the time at which the next job was due; 0: none waits. `in_flight`:
    jobs at receivers. Since the start: `sent` jobs; outcomes stored, by streams and calls, that ended a job
    (`acknowledged`), or gave it back (`postponed`); jobs that the manager gave back as their receiver was gone
    (`expired`); jobs given back that no receiver had begun (`unsent`); calls of the store that had jobs of the queue
    (`statements`), which are one statement each on PostgreSQL for plain jobs, and may be several elsewhere.
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
    """What a manager does. `statements`: calls of the store for dispatch since its start, reads of windows included.

    `pushes`, `outcomes`: those that wait to be stored. Of a manager that did not answer only the address is known.
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
