"""A queue: push, pop, reserve; look and operate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack, overload

from stanchion.context.context import Context
from stanchion.context.declared import as_declared, resettable
from stanchion.context.settings import checked_settings, settings_of, store_settings
from stanchion.context.shard import shown_lane, stored_range
from stanchion.core.aio import off_loop
from stanchion.core.checks import checked_ids, checked_name, refuse_unknown, seconds_of, several, whole
from stanchion.core.ids import new_id, new_ids
from stanchion.core.times import moment
from stanchion.errors import InvalidInput, JobNotFound
from stanchion.jobs import lookup
from stanchion.jobs.batches import batches, store_batches
from stanchion.jobs.insert import insert
from stanchion.jobs.job import FreshJob, Job, JobState
from stanchion.jobs.options import Push, PushOptions, checked
from stanchion.jobs.reservation import Reservation
from stanchion.jobs.search import PageOptions
from stanchion.queues.receive import Taking
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.queues import Counts, QueueSettings, QueueStats, Sizes, Stat

MOST_RESERVED = 1_000_000
"""Jobs that one call may reserve."""

LANE_JOBS_MAX = 1 << 30
"""More than any lane holds."""


class Queue:
    """A named line of jobs. Made by `app.queue(name)`."""

    def __init__(self, context: Context, name: str) -> None:
        self.context, self.name = context, checked_name(name, "queue")

    # -- in

    def push(self, payload: Any, *, tx: Any = None, **options: Unpack[PushOptions]) -> Job:
        """Store one job; with `tx`, in that transaction. A duplicate `key` returns the job that has it."""
        codec = self.context.codec
        fields = checked(options, codec, queue=self.name) if options else {}
        jobs = [NewJob(new_id(), self.name, codec.encode(payload), **fields)]
        (pushed,) = insert(self.context, jobs, tx)
        if pushed.duplicate:
            return lookup.jobs_of(self.context, jobs, [pushed])[0]
        return FreshJob(self.context, jobs[0], pushed)

    @overload
    def push_many(self, items: Collection[Any], *, tx: Any = None) -> list[Job]: ...
    @overload
    def push_many(self, items: Iterator[Any], *, tx: Any = None) -> int: ...
    def push_many(self, items: Iterable[Any], *, tx: Any = None) -> list[Job] | int:
        """Store many jobs, payloads or `Push(payload, **options)`, in batches of 2000.

        A collection gives its jobs back. An iterator may be endless: it is streamed in bounded memory and
        gives the number of jobs that were new. Each batch is atomic; with `tx`, all are.
        """
        several(items, "what is to be pushed", "[{'id': 1}, {'id': 2}]")
        stored = store_batches(self.context, (self._new(batch) for batch in batches(items)), tx)
        if isinstance(items, Collection):
            return [job for new, pushed in stored for job in lookup.jobs_of(self.context, new, pushed)]
        return sum(not one.duplicate for _, pushed in stored for one in pushed)

    def _new(self, items: Sequence[Any]) -> list[NewJob]:
        encode, codec = self.context.codec.encode, self.context.codec
        return [
            NewJob(job_id, self.name, encode(item.payload), **checked(item.options, codec, queue=self.name))
            if isinstance(item, Push)
            else NewJob(job_id, self.name, encode(item))
            for job_id, item in zip(new_ids(len(items)), items, strict=True)
        ]

    # -- out

    def pop(self, wait: float | timedelta = 0) -> Job | None:
        """Take the next job for good: at most once, gone when handed out. None when none is due in time."""
        return self._popped(self._popping(wait).rows())

    async def apop(self, wait: float | timedelta = 0) -> Job | None:
        """Await `pop`: while it waits it keeps no thread. Cancelled, it puts back what it had got by then."""
        return self._popped(await self._popping(wait).arows())

    def _popping(self, wait: float | timedelta) -> Taking:
        return Taking(self.context, Claim(self.name, 1, ""), seconds_of(wait, "wait"), pops=True)

    def _popped(self, rows: list[JobRow]) -> Job | None:
        return Job(self.context, rows[0], JobState.DONE) if rows else None

    def reserve(
        self,
        n: int = 1,
        wait: float | timedelta = 0,
        lease: float | timedelta | None = None,
        lanes: range | None = None,
    ) -> list[Reservation]:
        """Reserve up to `n` due jobs for `lease` seconds (None: the queue's), waiting up to `wait` for the first.

        With `lanes`, such as `range(0, 16)`, only jobs of these; from lane 0 on, also those that are in no lane.
        """
        return self._reserved(self._reserving(n, wait, lease, lanes).rows())

    async def areserve(
        self,
        n: int = 1,
        wait: float | timedelta = 0,
        lease: float | timedelta | None = None,
        lanes: range | None = None,
    ) -> list[Reservation]:
        """Await `reserve`: while it waits it keeps no thread. Cancelled, it gives back what it had got by then."""
        return self._reserved(await self._reserving(n, wait, lease, lanes).arows())

    def _reserving(
        self, n: int, wait: float | timedelta, lease: float | timedelta | None, lanes: range | None
    ) -> Taking:
        whole(n, "the number of jobs to reserve", 1, MOST_RESERVED)
        held = None if lease is None else seconds_of(lease, "lease")
        if held == 0:
            raise InvalidInput("lease must be more than 0 seconds")
        wish = Claim(self.name, n, "", lease=held, lanes=None if lanes is None else stored_range(lanes))
        return Taking(self.context, wish, seconds_of(wait, "wait"))

    def _reserved(self, rows: list[JobRow]) -> list[Reservation]:
        return [Reservation(self.context, row) for row in rows]

    # -- looking

    def size(self) -> Sizes:
        """Count the live jobs."""
        return self._stats("states").states

    def counts(self) -> Counts:
        """Return what happened in this queue since it was made."""
        return self._stats("totals").totals

    def lanes(self) -> dict[int | None, int]:
        """Count the queued jobs of each lane that has some; None stands for those that are in no lane."""
        depths = self.context.store.lane_depths(self.name, at_most=LANE_JOBS_MAX)
        return {shown_lane(lane): depths[lane] for lane in sorted(depths)}

    def next_due(self) -> datetime | None:
        """Return the earliest `run_at` of a live, unreserved job, or None."""
        return moment(self._stats("next_due").next_due)

    def _stats(self, field: Stat) -> QueueStats:
        return self.context.store.stats([self.name], [field])[self.name]

    def get(self, job_id: str) -> Job | None:
        """Return the job if it is, or ended, in this queue."""
        job = lookup.get(self.context, job_id)
        return job if job is not None and job.queue == self.name else None

    def find(self, **search: Unpack[PageOptions]) -> list[Job]:
        """Search live and finished jobs, newest first.

        `since` and `until` bound the time of the enqueue; `text` is part of the payload or of an error;
        `after` is the last id of the page before.
        """
        refuse_unknown(search, PageOptions.__optional_keys__, "option of a search")
        return lookup.find(self.context, queue=self.name, **search)

    def history(self, *, limit: int = 100, after: str | None = None) -> list[Job]:
        """Return finished jobs, newest first."""
        return self.find(state=[state for state in JobState if state.final], limit=limit, after=after)

    # -- operating

    def cancel(self, job_id: str) -> JobState | None:
        """Cancel a job, or ask it to stop if it runs; return its state after that, None if it is not in this queue."""
        return lookup.cancel(self.context, job_id) if self.get(job_id) is not None else None

    def retry(self, job_id: str) -> Job:
        """Make a dead, cancelled or scheduled job ready now, with all attempts before it.

        JobNotFound for one that is not in this queue.
        """
        job = lookup.get(self.context, job_id)
        if job is not None and job.queue != self.name:
            raise JobNotFound(job_id, queue=self.name, found_in=job.queue)
        return lookup.retry(self.context, job_id)

    def replay(self, job_ids: Iterable[str]) -> list[Job]:
        """Enqueue copies of finished jobs of this queue; each names its origin. Ids of others are left out."""
        ids = checked_ids(job_ids)
        known = self.context.store.fetch(ids)
        mine = [job_id for job_id in ids if job_id in known and known[job_id].queue == self.name]
        return lookup.replay(self.context, mine)

    def purge_history(self, older_than: float | timedelta | None = None) -> int:
        """Delete history that ended longer ago than this (None: than the queue's history_ttl)."""
        seconds = None if older_than is None else seconds_of(older_than, "older_than")
        purged = 0
        while count := self.context.store.purge(self.name, seconds):
            purged += count
        return purged

    def pause(self) -> None:
        """Stop handing out jobs, for every process; running ones finish."""
        self.context.store.configure(self.name, {"paused": True})

    def resume(self) -> None:
        """Hand out jobs again."""
        self.context.store.configure(self.name, {"paused": False})

    def configure(self, **settings: Any) -> QueueSettings:
        """Store settings: max_rate, max_running, lanes, lanes_per_tenant, history_ttl, dead_letter, lease, paused,
        expires, expires_with_jobs.
        """
        stored = store_settings(self.context.store, self.name, checked_settings(settings))
        self.context.lanes.forget()
        return stored

    def reset(self, *names: str) -> QueueSettings:
        """Go back to what the code declares, and to the defaults where it says nothing: these settings, or all.

        All but `paused`, unless it is named or declared.
        """
        self.context.declare(self.name)
        current = self.settings
        changes = as_declared(current, names or resettable(current), self.context.store.now)
        stored = store_settings(self.context.store, self.name, changes)
        self.context.lanes.forget()
        return stored

    @property
    def settings(self) -> QueueSettings:
        """The stored settings; the defaults of a queue that is not there."""
        return settings_of(self.context.store, self.name)

    def delete(self) -> int:
        """Delete the queue with its jobs, history and counts; return how many live jobs that were."""
        return self.context.store.drop_queue(self.name)

    apush = off_loop(push)
    asize = off_loop(size)
    acancel = off_loop(cancel)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self.context!r}>"


def declared_queue(context: Context, name: str, settings: Mapping[str, Any]) -> Queue:
    """Return a queue. Settings given here are stored at its first use by this process, or by `setup`."""
    if settings:
        context.declared.declare(name, checked_settings(settings))
    return Queue(context, name)
