"""Take-over: the jobs of a slice that its former owner has reserved.

They run at receivers, or were never sent: only the receivers know. So the new owner

1. reads the running rows of the slice that managers have reserved,
2. asks all receivers for a report; with it they learn the epoch, and refuse late messages of the former owner,
3. takes the jobs that a receiver has into its table, and returns jobs that the receiver of the row does not have,
4. after a lease, returns the jobs of receivers that have not answered, and reads once more: a statement of the former
   owner may have been under way at the first time.

No job is sent from the slice before 1 is done, so a row that is read and not in the table is inherited. It may
have ended meanwhile; then returning it changes nothing, as each step is fenced by the token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from stanchion.manager.dispatch.calls import Calls
from stanchion.manager.dispatch.receivers.flight import Flight, Flights
from stanchion.manager.dispatch.receivers.peers import Peer
from stanchion.manager.dispatch.settles import Settles
from stanchion.manager.leadership.owner import Owned
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.claims import BY_MANAGER
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.query import Condition, Query

_COLUMNS = ("lane", "id", "token", "worker", "attempts", "delivery")


class Inherited(NamedTuple):
    """A running row of a slice that was taken. `number`: of the take-over that found it."""

    lease: Lease
    owned: Owned
    worker: str
    attempts: int
    number: int


class Inheritance:
    """Inherited jobs that no receiver has reported yet."""

    def __init__(
        self, store: Store, calls: Calls, flights: Flights, settles: Settles, clock: Callable[[], float]
    ) -> None:
        self._store, self._calls, self._flights, self._settles = store, calls, flights, settles
        self._clock = clock
        self._rows: dict[tuple[str, str], Inherited] = {}
        """By id and token."""
        self._of_worker: Counter[str] = Counter()
        self.number = 0
        """Of the last read."""

    def __len__(self) -> int:
        return len(self._rows)

    def of_worker(self, worker: str) -> int:
        """Return the number of a worker's inherited jobs that are not reported yet."""
        return self._of_worker[worker]

    async def read(self, slices: Sequence[Owned], still: Callable[[Owned], bool], own: Callable[[str], bool]) -> int:
        """Read what managers have reserved in these slices; return the number of the take-over.

        `still`: returns False for a slice that was lost meanwhile. `own`: True for a job in a call under way.
        """
        queues = sorted({one.queue for one in slices})
        found = await self._calls.answered(queues, lambda _: {queue: self._running(queue) for queue in queues})
        self._calls.statements += len(queues) - 1
        self.number += 1
        for owned in slices:
            if not still(owned):
                continue
            for lane, job_id, token, worker, attempts in found[owned.queue]:
                lease = Lease(owned.queue, job_id, token)
                first, last = owned.lanes
                unknown = lease not in self._flights and not self._settles.pending(lease) and not own(job_id)
                if first <= lane <= last and unknown:
                    self._add(Inherited(lease, owned, worker or "", attempts, self.number))
        return self.number

    def _running(self, queue: str) -> list[tuple[int, str, str, str | None, int]]:
        where = (Condition("queue", "=", queue), Condition("state", "=", JobState.RUNNING.value))
        query = Query("live", where, order="id", columns=_COLUMNS)
        running = (row for page in pages(self._store, query) for row in page)
        return [one for *one, delivery in running if delivery == BY_MANAGER]

    def answered(self, peer: Peer, holding: Collection[tuple[str, str]]) -> None:
        """Compare with the report of a receiver: the ids and tokens of the jobs that it has."""
        worker = peer.receiver.worker
        unsent = []
        for key, one in list(self._rows.items()):
            if peer.asked is None or one.number > peer.asked:
                continue
            if key in holding:
                self.pop(one.lease)
                self._flights.add(Flight(one.lease, one.owned, peer.id, one.attempts, self._clock(), adopted=True))
            elif worker and one.worker == worker:
                self.pop(one.lease)
                unsent.append(one.lease)
        self._settles.unsent(unsent)

    def overdue(self, number: int) -> None:
        """Return unreported jobs of a take-over to their queues; those with a lease wait for its end."""
        for one in list(self._rows.values()):
            if one.number <= number:
                self.pop(one.lease)
                if one.worker:
                    self._settles.expired(one.lease, one.attempts)

    def pop(self, lease: Lease) -> Inherited | None:
        """Remove a job; None if it is not here."""
        one = self._rows.pop((lease.id, lease.token), None)
        if one is not None:
            self._of_worker[one.worker] -= 1
        return one

    def _add(self, one: Inherited) -> None:
        self.pop(one.lease)
        self._rows[one.lease.id, one.lease.token] = one
        self._of_worker[one.worker] += 1

    def drop(self, owned: Collection[Owned]) -> None:
        """Forget the jobs of slices."""
        for one in list(self._rows.values()):
            if one.owned in owned:
                self.pop(one.lease)

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()
        self._of_worker.clear()
