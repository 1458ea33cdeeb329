"""Puts the figures together."""

from __future__ import annotations

from collections.abc import Callable

from stanchion.manager.dispatch.calls import Calls
from stanchion.manager.dispatch.figures import Counts, EngineStatus
from stanchion.manager.dispatch.presence import Presence
from stanchion.manager.dispatch.receivers.flight import Flights
from stanchion.manager.dispatch.receivers.peers import Peer, Peers
from stanchion.manager.dispatch.slices import Slices
from stanchion.manager.window.reader import Reader
from stanchion.manager.window.store_time import StoreTime
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.managers import QueueFigures, ReceiverFigures


class Status:
    """Reads the figures of the other parts."""

    def __init__(
        self,
        slices: Slices,
        flights: Flights,
        peers: Peers,
        counts: Counts,
        calls: Calls,
        reader: Reader,
        time: StoreTime,
        clock: Callable[[], float],
    ) -> None:
        self._slices, self._flights, self._peers, self._counts = slices, flights, peers, counts
        self._calls, self._reader, self._time, self._clock = calls, reader, time, clock

    def figures(self, presence: Presence, pushes: int, outcomes: int) -> EngineStatus:
        """Return the figures; `pushes`, `outcomes`: numbers waiting."""
        queues = sorted({*self._slices.windows, *self._counts.queues(), *self._calls.of_queue})
        return EngineStatus(
            tuple(map(self._queue, queues)),
            tuple(self._receiver(peer, presence) for peer in self._peers.all()),
            self._calls.statements + self._reader.statements,
            pushes,
            outcomes,
            not self._calls.away,
        )

    def _queue(self, queue: str) -> QueueFigures:
        window, counts = self._slices.windows.get(queue), self._counts
        return QueueFigures(
            queue,
            slices=self._slices.count(queue),
            window=0 if window is None else len(window),
            lag=self._lag(queue),
            in_flight=self._flights.of_queue[queue],
            sent=counts.sent[queue],
            acknowledged=counts.acknowledged[queue],
            postponed=counts.postponed[queue],
            expired=counts.expired[queue],
            unsent=counts.unsent[queue],
            statements=self._calls.of_queue[queue],
        )

    def _lag(self, queue: str) -> float:
        window, now = self._slices.windows.get(queue), self._time.now()
        oldest = None if window is None else window.oldest()
        return 0.0 if oldest is None or now is None else max(0, now - oldest) / SECOND

    def _receiver(self, peer: Peer, presence: Presence) -> ReceiverFigures:
        return ReceiverFigures(
            peer.id,
            peer.receiver.worker,
            peer.receiver.capacity,
            self._flights.count(peer.id),
            peer.connected,
            max(0.0, self._clock() - peer.heard_at),
            presence.is_slow(peer),
        )
