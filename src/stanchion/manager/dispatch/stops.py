"""Notifies receivers which of their jobs should stop: jobs that were asked to, and jobs that are not theirs any more.

A cancel may be sent through any manager, or none, so long-running jobs are checked from time to time; short ones end
before they could be stopped. So are jobs of former owners, which may receive the reports of their ends: their room is
free once they no longer run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial

from stanchion.manager.dispatch.calls import MOST, Calls
from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.receivers.flight import Flight, Flights
from stanchion.manager.dispatch.receivers.peers import Peers
from stanchion.manager.dispatch.receivers.receiver import tell
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Page, Query

log = logging.getLogger("stanchion.manager")

_RUNNING = JobState.RUNNING.value
_COLUMNS = ("id", "token", "state", "cancel_requested")


class Stops:
    """Finds cancelled jobs in flight. `room_freed` is called when a receiver has more room."""

    def __init__(
        self, store: Store, calls: Calls, flights: Flights, peers: Peers, delays: Delays, clock: Callable[[], float]
    ) -> None:
        self._store, self._calls, self._flights, self._peers = store, calls, flights, peers
        self._delays, self._clock = delays, clock
        self.room_freed: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Check long jobs once in a lease, and jobs of former owners with each poll, until cancelled."""
        looked_at = self._clock()
        while True:
            await asyncio.sleep(self._delays.poll)
            now = self._clock()
            try:
                if now - looked_at >= self._delays.lease:
                    looked_at = now
                    await self.look(self._flights.sent_before(now - self._delays.lease))
                else:
                    await self.look(self._flights.adopted())
            except Exception:
                log.exception("looking for cancelled jobs has failed")

    async def look(self, flights: Sequence[Flight]) -> None:
        """Notify the receivers of these jobs which of them should stop."""
        for start in range(0, len(flights), MOST):
            part = flights[start : start + MOST]
            ids = tuple(flight.lease.id for flight in part)
            query = Query("live", (Condition("id", "in", ids),), limit=MOST, columns=_COLUMNS)
            queues = {flight.lease.queue for flight in part}
            page = await self._calls.answered(queues, partial(self._selected, query))
            rows = {(job_id, token): cancelled for job_id, token, state, cancelled in page.rows if state == _RUNNING}
            self.stop([one for one in part if rows.get((one.lease.id, one.lease.token), True)])
            for one in part:
                if (one.lease.id, one.lease.token) not in rows and self._flights.pop(one.lease):
                    self.room_freed()

    def _selected(self, query: Query, _repeat: bool) -> Page:
        return self._store.select(query)

    def cancelled(self, ids: Collection[str]) -> None:
        """Notify receivers immediately of jobs that were cancelled through this manager."""
        asked = set(ids)
        self.stop([flight for flight in self._flights.sent_before(float("inf")) if flight.lease.id in asked])

    def stop(self, flights: Sequence[Flight]) -> None:
        """Notify the receivers of jobs that these should stop."""
        for peer in self._peers.connected():
            held = [flight.lease for flight in flights if flight.receiver == peer.id and flight.lease in self._flights]
            if held:
                tell(peer.receiver, partial(peer.receiver.cancel, held))
