"""Receivers connect, report their jobs, fall silent and leave; the consequences for their jobs.

    a new stream of the same instance    jobs it does not name were lost on the way: returned, not counted
    another instance of its worker       its jobs began in a process that is gone: returned, counted, with back-off
    a stream ends                        the grace passes without a new one: returned, counted, with back-off
    it says goodbye                      jobs still on their way never arrived: returned, not counted
    silent for a lease                   the stream is ended; returned, counted, with back-off

The end of a stream says nothing: a connection that is cut ends in the same way as one that is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from stanchion.manager.dispatch.delays import Delays, jittered
from stanchion.manager.dispatch.inheritance import Inheritance
from stanchion.manager.dispatch.receivers.flight import Flights
from stanchion.manager.dispatch.receivers.peers import Peer, Peers
from stanchion.manager.dispatch.receivers.receiver import Receiver, tell
from stanchion.manager.dispatch.settles import Settles
from stanchion.manager.dispatch.slices import Slices
from stanchion.stores.records.jobs import Lease

log = logging.getLogger("stanchion.manager")

STAMPS = 6
"""Stamps in a lease; a receiver that has missed two of them is slow."""

LOG_SECONDS = 60.0
"""Time between two log lines about a slow receiver."""


class Presence:
    """Knows which receivers are there. `changed` is called when one may have more room."""

    def __init__(
        self,
        slices: Slices,
        peers: Peers,
        flights: Flights,
        settles: Settles,
        inheritance: Inheritance,
        delays: Delays,
        clock: Callable[[], float],
    ) -> None:
        self._slices, self._peers, self._flights, self._settles = slices, peers, flights, settles
        self._inheritance, self._delays, self._clock = inheritance, delays, clock
        self.changed: Callable[[], None] = lambda: None
        self.answer: Callable[[Peer], None] = lambda _peer: None
        """Called for each stamp of a receiver."""

    # -- hello

    def hello(self, receiver: Receiver, holding: Sequence[Lease]) -> None:
        """Take in a receiver with a new stream."""
        peer = self._peers.get(receiver.id)
        if peer is None:
            peer = Peer(receiver, self._clock())
            self._peers.add(peer)
            self._replace_instances(peer)
        else:
            peer.receiver, peer.connected, peer.streams = receiver, True, peer.streams + 1
            peer.heard, peer.heard_at = None, self._clock()
            peer.asked, peer.ask_again = None, False
            held = {(lease.id, lease.token) for lease in holding}
            self._give_back_unsent([one.lease for one in self._flights.at(peer.id) if _key(one.lease) not in held])
        if self._slices.owned():
            self.ask(peer)
        self.changed()

    def _replace_instances(self, peer: Peer) -> None:
        """Return the jobs of former processes of this worker."""
        for other in self._peers.all():
            if other.id != peer.id and peer.receiver.worker and other.receiver.worker == peer.receiver.worker:
                self._gone(other, "another process has its worker")

    def report(self, receiver: Receiver, holding: Sequence[Lease]) -> None:
        """Compare inherited jobs with a receiver's report; its own jobs may still be on their way."""
        peer = self._peers.of(receiver)
        if peer is None:
            return
        self._inheritance.answered(peer, {_key(lease) for lease in holding})
        peer.asked = None
        if peer.ask_again:
            peer.ask_again = False
            self.ask(peer)
        self.changed()

    def ask(self, peer: Peer) -> None:
        """Ask a receiver for its jobs; one question at a time, so that each answer has one question."""
        if peer.asked is not None:
            peer.ask_again = True
            return
        peer.asked = self._inheritance.number
        tell(peer.receiver, partial(peer.receiver.report, self._slices.owned()))

    def ask_all(self) -> None:
        """Ask all receivers."""
        for peer in self._peers.connected():
            self.ask(peer)

    # -- signs of life

    def heard(self, receiver: Receiver, stamp: int) -> None:
        """Take in the stamp of a receiver's clock."""
        peer = self._peers.of(receiver)
        if peer is not None:
            first = peer.heard is None
            peer.heard, peer.heard_at = stamp, self._clock()
            self.answer(peer)
            if first:
                self.changed()

    async def watch(self) -> None:
        """End the streams of silent receivers, until cancelled."""
        while True:
            due = self._clock() + self._delays.lease / STAMPS
            await asyncio.sleep(self._delays.lease / STAMPS)
            if self._stood_still_since(due):
                continue
            for peer in self._peers.connected():
                self._check(peer)

    def _stood_still_since(self, due: float) -> bool:
        """Return True if a timer of this process rings far too late.

        Then stamps, outcomes and new streams may have come that are not read yet, and the session may be over.
        """
        return self._clock() - due > self._delays.lease / STAMPS

    def _check(self, peer: Peer) -> None:
        now = self._clock()
        if now - peer.heard_at > self._delays.lease:
            log.warning("receiver %s was silent for %.1f s; its stream is ended", peer.id, now - peer.heard_at)
            self._gone(peer, f"nothing was heard for {self._delays.lease:g} s")
        elif self.is_slow(peer) and now - peer.told_at >= LOG_SECONDS:
            peer.told_at = now
            log.warning("receiver %s is slow: nothing was heard for %.1f s", peer.id, now - peer.heard_at)

    def is_slow(self, peer: Peer) -> bool:
        """Return True if stamps of a receiver are missing."""
        return peer.connected and self._clock() - peer.heard_at > 2.5 * self._delays.lease / STAMPS

    # -- the end

    def gone(self, receiver: Receiver, *, goodbye: bool) -> None:
        """Take in that a stream has ended; nothing if the receiver has a newer one."""
        peer = self._peers.of(receiver)
        if peer is None:
            return
        peer.connected, peer.asked, peer.ask_again = False, None, False
        if goodbye:
            self._peers.remove(peer)
            self._give_back_unsent([one.lease for one in self._flights.at(peer.id)])
            return
        stream = peer.streams

        def lapse(due: float) -> None:
            if peer.connected or peer.streams != stream or self._peers.get(peer.id) is not peer:
                return
            if self._stood_still_since(due):
                lapse_in(self._delays.lease / STAMPS)
            else:
                self._gone(peer, "")

        def lapse_in(seconds: float) -> None:
            asyncio.get_running_loop().call_later(seconds, lapse, self._clock() + seconds)

        lapse_in(jittered(self._delays.grace))

    def _gone(self, peer: Peer, reason: str) -> None:
        """Return the jobs of a receiver that is gone, and end its stream."""
        self._peers.remove(peer)
        for flight in self._flights.at(peer.id):
            self._flights.pop(flight.lease)
            self._settles.expired(flight.lease, flight.attempts)
        if peer.connected:
            peer.connected = False
            peer.receiver.end(reason)

    def _give_back_unsent(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._flights.pop(lease)
        self._settles.unsent(leases)


def _key(lease: Lease) -> tuple[str, str]:
    return lease.id, lease.token
