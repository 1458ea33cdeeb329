"""What dispatch sees of a receiver, and of the manager's session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from stanchion.manager.leadership.owner import Owned
from stanchion.stores.records.jobs import JobRow, Lease

log = logging.getLogger("stanchion.manager")


class Guard(NamedTuple):
    """Informs a receiver how long jobs are valid: until its clock is past `heard` + `lease_left`, in microseconds.

    `heard`: the last stamp of its own clock that the manager knew. `lease_left`: how long the session is sure to last.
    """

    heard: int | None
    lease_left: int


class Sent(NamedTuple):
    """A job for a receiver, stored as running, and the epoch and number of its slice."""

    row: JobRow
    epoch: int
    slice: int


class Receiver(Protocol):
    """The stream of one receiver. Its methods are called in the event loop, never wait, and do nothing after its end.

    `id`: of the instance, new for each process. `worker`: the id of its worker row; "": its jobs have leases.
    `capacity`: how many jobs it takes. `queues`: in their order. `order`: how it chooses among them; see `Precedence`.
    `lanes`: the first and last lane of each queue that it does not serve whole.
    """

    @property
    def id(self) -> str: ...
    @property
    def worker(self) -> str: ...
    @property
    def capacity(self) -> int: ...
    @property
    def queues(self) -> Collection[str]: ...
    @property
    def order(self) -> str: ...
    @property
    def lanes(self) -> Mapping[str, tuple[int, int]]: ...

    def send(self, jobs: Sequence[Sent], guard: Guard) -> None:
        """Send jobs."""

    def answer(self, guard: Guard) -> None:
        """Say which stamp was heard last, and how long the session is sure to last."""

    def confirm(self, settled: Sequence[Lease], lost: Sequence[Lease], newly: int) -> None:
        """Say which outcomes are stored, and which can't be. `newly`: those stored by this, and no earlier try."""

    def cancel(self, held: Sequence[Lease]) -> None:
        """Say which jobs should stop."""

    def report(self, owned: Sequence[Owned]) -> None:
        """Say what this manager owns, and ask for a Hello that names all jobs held.

        A job whose outcome is not confirmed must be among these, or its outcome arrive first: else it is returned.
        """

    def end(self, reason: str) -> None:
        """End the stream."""


def tell(receiver: Receiver, message: Callable[[], None]) -> None:
    """Send a message to a receiver; if its stream is broken, end it, so that the receiver reports on a new one.

    No error reaches the caller, who would take it for the store's and repeat completed work.
    """
    try:
        message()
    except Exception:
        log.exception("the stream of receiver %s is broken", receiver.id)
        receiver.end("the manager could not write to the stream")


class Session(Protocol):
    """The session of this manager. `session`: its id. `until`: the store time until which it is good."""

    @property
    def session(self) -> str: ...
    @property
    def until(self) -> int: ...

    def seconds_left(self) -> float:
        """Return how long the session is sure to last; 0 or less: stop dispatching."""
