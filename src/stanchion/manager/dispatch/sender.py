"""Sends jobs that are stored as running, if slice and session are still this manager's; else gives them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from stanchion.manager.dispatch.figures import Counts
from stanchion.manager.dispatch.receivers.flight import Flight, Flights
from stanchion.manager.dispatch.receivers.peers import Peer
from stanchion.manager.dispatch.receivers.receiver import Guard, Sent, Session, tell
from stanchion.manager.dispatch.settles import Settles
from stanchion.manager.dispatch.slices import Slices
from stanchion.manager.leadership.owner import Owned
from stanchion.stores.records.jobs import SECOND, JobRow


class Stored(NamedTuple):
    """A job that is stored as running, for a receiver, when this manager owned its slice."""

    row: JobRow
    owned: Owned
    peer: Peer


class Sender:
    """Sends jobs. `clock`: own clock, in seconds."""

    def __init__(
        self, slices: Slices, flights: Flights, settles: Settles, counts: Counts, clock: Callable[[], float]
    ) -> None:
        self._slices, self._flights, self._settles, self._counts, self._clock = slices, flights, settles, counts, clock
        self.session: Session | None = None
        self.stopped = True
        """True before the start, and while the manager drains."""

    @property
    def not_after(self) -> int:
        """The store time until which jobs may be reserved."""
        return 0 if self.session is None else self.session.until

    def may_fire(self) -> bool:
        """Return whether jobs may be sent now."""
        return not self.stopped and self.session is not None and self.session.seconds_left() > 0

    def answer(self, peer: Peer) -> None:
        """Answer the stamp of a receiver that has jobs: one that is about to begin must not be given to others soon."""
        left = 0.0 if self.session is None else self.session.seconds_left()
        if left > 0 and self._flights.count(peer.id):
            tell(peer.receiver, partial(peer.receiver.answer, Guard(peer.heard, int(left * SECOND))))

    def send(self, stored: Iterable[Stored]) -> None:
        """Send jobs to their receivers, one message each; return jobs that can't be sent to their queues."""
        left = 0.0 if self.session is None else self.session.seconds_left()
        of: dict[str, tuple[Peer, list[Sent]]] = {}
        unsent = []
        for row, owned, peer in stored:
            if left <= 0 or not peer.connected or not self._slices.has(owned):
                unsent.append(row.lease)
                continue
            self._flights.add(Flight(row.lease, owned, peer.id, row.attempts, self._clock()))
            self._counts.sent[row.queue] += 1
            of.setdefault(peer.id, (peer, []))[1].append(Sent(row, owned.epoch, owned.slice))
        self._settles.unsent(unsent)
        for peer, jobs in of.values():
            guard = Guard(peer.heard, int(left * SECOND))
            tell(peer.receiver, partial(peer.receiver.send, jobs, guard))
