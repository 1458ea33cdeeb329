"""Taking jobs out of a queue."""

from __future__ import annotations

from datetime import timedelta

from stanchion.context.shard import stored_range
from stanchion.core.backoff import deadline_in
from stanchion.core.checks import lease_seconds, seconds_of, whole
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.reservation import Reservation
from stanchion.queues.batch import Batch
from stanchion.queues.consumer import Consumer
from stanchion.queues.part import QueuePart
from stanchion.queues.receive import Receive
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow

MOST_RESERVED = 1_000_000
"""Jobs that one call may reserve."""


class Reserving(QueuePart):
    """Takes jobs out of a queue: pops or reserves them, or waits until one is due."""

    def pop(self, wait: float | timedelta = 0, *, holder: str | Consumer | None = None) -> Job | None:
        """Pop the next job: delivered at most once, and done immediately. None if none is due within `wait` seconds.

        `holder`: name of the caller, kept as the job's `worker`.
        """
        return self._popped(self._popping(wait, holder).rows())

    async def apop(self, wait: float | timedelta = 0, *, holder: str | Consumer | None = None) -> Job | None:
        """Await `pop`. Waiting takes no thread; a cancellation puts a job already popped back into the queue."""
        return self._popped(await self._popping(wait, holder).arows())

    def _popping(self, wait: float | timedelta, holder: str | Consumer | None) -> Receive:
        return Receive(self._context, Claim(self.name, 1, ""), seconds_of(wait, "wait"), holder=holder, pops=True)

    def _popped(self, rows: list[JobRow]) -> Job | None:
        return Job(self._context, rows[0], JobState.DONE) if rows else None

    def reserve(
        self,
        n: int = 1,
        wait: float | timedelta = 0,
        lease: float | timedelta | None = None,
        lanes: range | None = None,
        *,
        holder: str | Consumer | None = None,
    ) -> list[Reservation]:
        """Reserve up to `n` due jobs for `lease` seconds (None: the queue's), waiting up to `wait` for the first.

        With `lanes`, such as `range(0, 16)`, only jobs of these lanes; a range with lane 0 includes jobs in no lane.
        `holder`: who reserves them, kept as the job's `worker`: a name, or an `app.consumer(name)`, whose heartbeats
        hold them without a lease.
        """
        return self._reserved(self._reserving(n, wait, lease, lanes, holder).rows())

    async def areserve(
        self,
        n: int = 1,
        wait: float | timedelta = 0,
        lease: float | timedelta | None = None,
        lanes: range | None = None,
        *,
        holder: str | Consumer | None = None,
    ) -> list[Reservation]:
        """Await `reserve`. Waiting takes no thread; a cancellation returns jobs that are already reserved."""
        return self._reserved(await self._reserving(n, wait, lease, lanes, holder).arows())

    def batch(
        self,
        n: int = 100,
        wait: float | timedelta = 0,
        lease: float | timedelta | None = None,
        lanes: range | None = None,
        *,
        holder: str | Consumer | None = None,
    ) -> Batch:
        """Return a block `with queue.batch(500) as jobs:`, which reserves up to `n` jobs and ends all by one call.

        For the other parameters see `reserve`. See also `Batch`.
        """
        return Batch(self._context, self._reserving(n, wait, lease, lanes, holder))

    def _reserving(
        self,
        n: int,
        wait: float | timedelta,
        lease: float | timedelta | None,
        lanes: range | None,
        holder: str | Consumer | None,
    ) -> Receive:
        whole(n, "the number of jobs to reserve", 1, MOST_RESERVED)
        held = None if lease is None else lease_seconds(lease)
        wanted = Claim(self.name, n, "", lease=held, lanes=None if lanes is None else stored_range(lanes))
        return Receive(self._context, wanted, seconds_of(wait, "wait"), holder=holder)

    def _reserved(self, rows: list[JobRow]) -> list[Reservation]:
        return [Reservation(self._context, row) for row in rows]

    def until_due(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until a job may be due, without taking it; False after `timeout` seconds (None: no limit).

        False too while the queue is paused or at its `max_running`. Another consumer may take the job first.
        """
        return self._context.waits.for_due(self.name, deadline_in(timeout)).result()

    async def auntil_due(self, timeout: float | timedelta | None = None) -> bool:
        """Await `until_due`. Waiting takes no thread."""
        import asyncio

        loop = asyncio.get_running_loop()
        return await self._context.waits.for_due(self.name, deadline_in(timeout), loop).answer()
