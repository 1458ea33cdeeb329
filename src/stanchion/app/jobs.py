"""The calls of an app that look up and change single jobs and flows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar, Unpack, overload

from stanchion.app.area import Area
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.types import Transaction

if TYPE_CHECKING:  # imported at first use, so that a program loads only what it uses
    from stanchion.flows.event_group import EventGroup
    from stanchion.flows.handle import FlowHandle
    from stanchion.flows.parts import Part, Single
    from stanchion.jobs.job import Job, JobState
    from stanchion.jobs.options import Push
    from stanchion.jobs.reservation import Reservation, Settlement
    from stanchion.jobs.search import Search

T = TypeVar("T")


class JobCalls(Area):
    """Jobs, reservations, and flows."""

    def get(self, job_id: str) -> Job | None:
        """Return the job, live or finished, or None."""
        from stanchion.jobs import lookup

        return lookup.get(self._context, job_id)

    def find(self, **search: Unpack[Search]) -> list[Job]:
        """Search live and finished jobs of all queues, newest first; see `Queue.find`."""
        from stanchion.jobs import lookup

        return lookup.find(self._context, **search)

    def cancel(self, job_id: str) -> JobState | None:
        """Cancel a job, or ask it to stop if it is running; return its new state, or None if it is unknown."""
        from stanchion.jobs import lookup

        return lookup.cancel(self._context, job_id)

    def retry_job(self, job_id: str) -> Job:
        """Make a dead, cancelled or scheduled job ready now, with its attempts reset."""
        from stanchion.jobs import lookup

        return lookup.retry(self._context, job_id)

    def replay(self, job_ids: Iterable[str]) -> list[Job]:
        """Enqueue copies of finished jobs; each names its origin. Ids not in history are left out."""
        from stanchion.jobs import lookup

        return lookup.replay(self._context, job_ids)

    def settle(self, settlements: Iterable[Settlement], *, tx: Transaction | None = None) -> list[JobState | None]:
        """End many reserved jobs together: `app.settle([job.committed(result), other.rolled_back(error="no")])`.

        Returns the state of each job now; None: its lease is lost. With `tx`, all end in that transaction.
        """
        from stanchion.jobs.settling import settle

        return settle(self._context, settlements, tx)

    def reservation(self, job_id: str, token: str) -> Reservation:
        """Return the reservation that another request, process or host made: to end, extend or move the job here.

        Raises LeaseLost if the job is not reserved under this token.
        """
        from stanchion.jobs.settling import reservation

        return reservation(self._context, job_id, token)

    def reservations(self, pairs: Iterable[tuple[str, str]]) -> list[Reservation | None]:
        """Return the reservations made elsewhere with these ids and tokens, in order; None for a lost lease."""
        from stanchion.jobs.settling import reservations

        return reservations(self._context, pairs)

    @overload
    def enqueue_flow(self, part: Part[T], tx: Transaction | None = None) -> FlowHandle[T]: ...
    @overload
    def enqueue_flow(self, part: Push, tx: Transaction | None = None) -> FlowHandle: ...
    def enqueue_flow(self, part: Part | Push, tx: Transaction | None = None) -> FlowHandle:
        """Store a flow; with `tx`, in that transaction. Like `part.enqueue(tx)`, but works for a flow without calls."""
        from stanchion.flows.parts import checked_part, stored

        return stored(checked_part(part), self._context, tx)

    def flow(self, flow_id: str) -> FlowHandle:
        """Return a handle to a flow by its id."""
        from stanchion.flows.handle import FlowHandle

        return FlowHandle(self._context, flow_id)

    def event_group(
        self, name: str, then: Part | Push | None = None, on_failure: Single | Push | None = None
    ) -> EventGroup:
        """Open a group that takes members until it is closed, or return the existing group of that name.

        `then` runs once all members are done and gets the list of their results; `on_failure` runs if one fails.
        """
        from stanchion.flows.event_group import opened

        return opened(self._context, name, then, on_failure)

    aget = off_loop(get)
    afind = off_loop(find)
    acancel = off_loop(cancel)
    aretry_job = off_loop(retry_job)
    areplay = off_loop(replay)
    asettle = off_loop(settle)
    areservation = off_loop(reservation)
    areservations = off_loop(reservations)
    aenqueue_flow = off_loop(enqueue_flow)
    aevent_group = off_loop(event_group)
