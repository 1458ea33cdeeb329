"""The table of jobs in flight: jobs that this manager has sent, or has found at their receivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from stanchion.manager.leadership.owner import Owned
from stanchion.stores.records.jobs import Lease


class Flight(NamedTuple):
    """A job at a receiver: its lease and slice, the instance that has it, its attempts; since when, by own clock.

    `adopted`: a former owner has sent it, and may receive the report of its end.
    """

    lease: Lease
    owned: Owned
    receiver: str
    attempts: int
    since: float
    adopted: bool = False


class Flights:
    """Jobs in flight, by lease and by receiver."""

    def __init__(self) -> None:
        self._all: dict[Lease, Flight] = {}
        self._of: dict[str, dict[Lease, Flight]] = {}
        self.of_queue: Counter[str] = Counter()
        """Numbers of jobs."""

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, lease: Lease) -> bool:
        return lease in self._all

    def add(self, flight: Flight) -> None:
        """Add a job."""
        self.pop(flight.lease)
        self._all[flight.lease] = flight
        self._of.setdefault(flight.receiver, {})[flight.lease] = flight
        self.of_queue[flight.lease.queue] += 1

    def pop(self, lease: Lease) -> Flight | None:
        """Remove a job; None if it is not here."""
        flight = self._all.pop(lease, None)
        if flight is not None:
            several = self._of[flight.receiver]
            del several[lease]
            if not several:
                del self._of[flight.receiver]
            self.of_queue[lease.queue] -= 1
        return flight

    def at(self, receiver: str) -> list[Flight]:
        """Return the jobs at a receiver, in the order of sending."""
        return list(self._of.get(receiver, {}).values())

    def count(self, receiver: str) -> int:
        """Return the number of jobs at a receiver."""
        return len(self._of.get(receiver, ()))

    def adopted(self) -> list[Flight]:
        """Return the jobs that former owners have sent."""
        return [flight for flight in self._all.values() if flight.adopted]

    def sent_before(self, moment: float) -> list[Flight]:
        """Return the jobs that have been in flight since before a moment."""
        return [flight for flight in self._all.values() if flight.since < moment]

    def drop(self, owned: Iterable[Owned]) -> None:
        """Forget the jobs of slices; they stay at their receivers."""
        slices = {(one.queue, one.slice) for one in owned}
        for flight in list(self._all.values()):
            if (flight.owned.queue, flight.owned.slice) in slices:
                self.pop(flight.lease)

    def clear(self) -> None:
        """Forget all."""
        self._all.clear()
        self._of.clear()
        self.of_queue.clear()
