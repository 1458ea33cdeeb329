"""A queue: push, pop, reserve, inspect and operate."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack, overload

from stanchion.context import pauses
from stanchion.context.context import Context
from stanchion.context.declared import as_declared, resettable
from stanchion.context.settings import checked_settings, settings_of, store_settings
from stanchion.context.shard import shown_lane, stored_range
from stanchion.core.aio import off_loop
from stanchion.core.backoff import deadline_in
from stanchion.core.checks import (
    acted_id,
    acted_ids,
    lease_seconds,
    refuse_unknown,
    seconds_of,
    several,
    shown,
    whole,
)
from stanchion.core.ids import new_id, new_ids
from stanchion.core.partition_names import checked_partitioned, checked_queue, is_queue, logical_name
from stanchion.core.times import moment
from stanchion.errors import InvalidInput, JobNotFound
from stanchion.jobs import lookup
from stanchion.jobs.batches import batches, store_batches
from stanchion.jobs.insert import insert
from stanchion.jobs.job import FreshJob, Job, JobState
from stanchion.jobs.options import Push, PushOptions, checked
from stanchion.jobs.reservation import Reservation
from stanchion.jobs.search import MAX_PAGE, PageOptions
from stanchion.queues.batch import Batch
from stanchion.queues.clearing import clear_queue
from stanchion.queues.consumer import Consumer
from stanchion.queues.purging import purge
from stanchion.queues.receive import Receive
from stanchion.schemas.kinds import Schema
from stanchion.schemas.models import schema_from
from stanchion.schemas.stored import replace, stored_schema
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import Counts, QueueSettings, QueueStats, Sizes, Stat

MOST_RESERVED = 1_000_000
"""Jobs that one call may reserve."""

LANE_JOBS_MAX = 1 << 30
"""A bound above the depth of any lane."""


class Queue:
    """A named queue of jobs. Made by `app.queue(name)`."""

    def __init__(self, context: Context, name: str) -> None:
        self.context, self.name = context, checked_queue(name)

    # -- in

    def push(self, payload: Any, *, tx: Any = None, **options: Unpack[PushOptions]) -> Job:
        """Store one job; with `tx`, in that transaction. For a duplicate `key`, return the live job that has it."""
        codec = self.context.codec
        fields = checked(options, codec, queue=self.name, declared=self.context.declared_rate) if options else {}
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
        """Store many jobs, given as payloads or as `Push(payload, **options)`, in batches of 2000.

        Returns the jobs of a collection. An iterator, which may be endless, is streamed in bounded memory; returns
        the number of new jobs. Each batch is atomic; with `tx`, all together are.
        """
        several(items, "what is to be pushed", "[{'id': 1}, {'id': 2}]")
        stored = store_batches(self.context, (self._new(batch) for batch in batches(items)), tx)
        if isinstance(items, Collection):
            return [job for new, pushed in stored for job in lookup.jobs_of(self.context, new, pushed)]
        return sum(not one.duplicate for _, pushed in stored for one in pushed)

    def _new(self, items: Sequence[Any]) -> list[NewJob]:
        encode, codec, declared = self.context.codec.encode, self.context.codec, self.context.declared_rate
        return [
            NewJob(
                job_id,
                self._own(item),
                encode(item.payload),
                **checked(item.options, codec, queue=self.name, declared=declared),
            )
            if isinstance(item, Push)
            else NewJob(job_id, self.name, encode(item))
            for job_id, item in zip(new_ids(len(items)), items, strict=True)
        ]

    def _own(self, item: Push) -> str:
        if item.queue not in (None, self.name):
            raise InvalidInput(
                f"{shown(item)} names another queue than {self.name!r}: push it there, with app.queue({item.queue!r})"
            )
        return self.name

    # -- out

    def pop(self, wait: float | timedelta = 0, *, holder: str | Consumer | None = None) -> Job | None:
        """Return the next job, done at once: delivered at most once. None if no job is due within `wait` seconds.

        `holder`: who takes it; kept as the job's `worker`.
        """
        return self._popped(self._popping(wait, holder).rows())

    async def apop(self, wait: float | timedelta = 0, *, holder: str | Consumer | None = None) -> Job | None:
        """Await `pop`. Waiting takes no thread; a cancellation puts a job already popped back into the queue."""
        return self._popped(await self._popping(wait, holder).arows())

    def _popping(self, wait: float | timedelta, holder: str | Consumer | None) -> Receive:
        return Receive(self.context, Claim(self.name, 1, ""), seconds_of(wait, "wait"), holder=holder, pops=True)

    def _popped(self, rows: list[JobRow]) -> Job | None:
        return Job(self.context, rows[0], JobState.DONE) if rows else None

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
        """Await `reserve`. Waiting takes no thread; a cancellation gives back jobs already reserved."""
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

        The other parameters are those of `reserve`. See `Batch`.
        """
        return Batch(self.context, self._reserving(n, wait, lease, lanes, holder))

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
        return Receive(self.context, wanted, seconds_of(wait, "wait"), holder=holder)

    def _reserved(self, rows: list[JobRow]) -> list[Reservation]:
        return [Reservation(self.context, row) for row in rows]

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until a job may be due, without taking it; False after `timeout` seconds (None: no limit).

        False too while the queue is paused or at its `max_running`. Another consumer may take the job first.
        """
        return self.context.waits.for_due(self.name, deadline_in(timeout)).result()

    async def await_(self, timeout: float | timedelta | None = None) -> bool:
        """Await `wait`. Waiting takes no thread."""
        loop = asyncio.get_running_loop()
        return await self.context.waits.for_due(self.name, deadline_in(timeout), loop).answer()

    # -- inspecting

    def size(self) -> Sizes:
        """Count the live jobs."""
        return self._stats("states").states

    def counts(self) -> Counts:
        """Return the totals of this queue since its creation."""
        return self._stats("totals").totals

    def lanes(self) -> dict[int | None, int]:
        """Count the queued jobs of each lane that has any; None stands for no lane."""
        depths = self.context.fresh_store.lane_depths(self.name, at_most=LANE_JOBS_MAX)
        return {shown_lane(lane): depths[lane] for lane in sorted(depths)}

    def next_due(self) -> datetime | None:
        """Return the earliest `run_at` of a live, unreserved job, or None."""
        return moment(self._stats("next_due").next_due)

    def _stats(self, field: Stat) -> QueueStats:
        return self.context.fresh_store.stats([self.name], [field])[self.name]

    def get(self, job_id: str, *, passed: bool = False) -> Job | None:
        """Return the job if it is in this queue, live or finished; else None. `passed`: also if it has moved on."""
        job = lookup.get(self.context, job_id)
        if job is None or (job.queue != self.name and not (passed and job.has_passed(self.name))):
            return None
        return job

    def find(self, *, passed: bool = False, **search: Unpack[PageOptions]) -> list[Job]:
        """Search live and finished jobs, newest first; with `passed`, also those that have moved on from here.

        `since` and `until` bound the enqueue time, `finished_since` and `finished_until` that of the end; `text` is
        part of the payload or of an error; `payload={"user.id": 4}` and `headers={"source": "web"}` are values inside;
        `after` is the last id of the previous page. Raises SearchTooWide if it looked into 100,000 jobs for such
        values.
        """
        refuse_unknown(search, PageOptions.__optional_keys__, "option of a search")
        if passed:
            return lookup.find(self.context, passed=self.name, **search)
        return lookup.find(self.context, queue=self.name, **search)

    def history(self, *, limit: int = 100, after: str | None = None) -> list[Job]:
        """Return finished jobs, newest first."""
        return self.find(state=[state for state in JobState if state.final], limit=limit, after=after)

    def peek(self, n: int = 1) -> list[Job]:
        """Return up to `n` ready jobs in the order in which claims take them, and change nothing.

        Claims of a queue with lanes alternate between them; here the jobs of all lanes are in one order.
        """
        store = self.context.fresh_store
        due = Condition("queue", "=", self.name), Condition("run_at", "<=", store.now())
        page = store.select(Query("live", due, order="due", limit=whole(n, "n", 1, MAX_PAGE)))
        return [Job(self.context, row, JobState.READY) for row in page.rows]

    # -- operating

    def cancel(self, job_id: str) -> JobState | None:
        """Cancel a job, or ask it to stop if it is running; return its new state, None if it is not in this queue."""
        return lookup.cancel(self.context, job_id) if self.get(acted_id(job_id)) is not None else None

    def retry(self, job_id: str) -> Job:
        """Make a dead, cancelled or scheduled job ready now, with its attempts reset.

        Raises JobNotFound if it is not in this queue.
        """
        job = lookup.get(self.context, job_id)
        if job is not None and job.queue != self.name:
            raise JobNotFound(job_id, queue=self.name, found_in=job.queue)
        return lookup.retry(self.context, job_id)

    def replay(self, job_ids: Iterable[str]) -> list[Job]:
        """Enqueue copies of finished jobs of this queue; each names its origin. Other ids are left out."""
        ids = acted_ids(job_ids)
        known = self.context.fresh_store.fetch(ids)
        mine = [job_id for job_id in ids if job_id in known and logical_name(known[job_id].queue) == self.name]
        return lookup.replay(self.context, mine)

    def clear(self) -> int:
        """Delete the jobs that have not begun: ready, scheduled and waiting ones; return their number.

        Running jobs, history and settings stay. Members of flows are cancelled, so that their flows end.
        """
        return clear_queue(self.context.store, self.name)

    def purge_history(self, older_than: float | timedelta | None = None) -> int:
        """Delete jobs that finished more than `older_than` seconds ago (None: the queue's history_ttl)."""
        seconds = None if older_than is None else seconds_of(older_than, "older_than")
        return purge(self.context.fresh_store, self.name, seconds)

    def pause(self, note: str = "", who: str = "") -> None:
        """Stop handing out jobs, in all processes; running jobs finish. `note`: why, and until when; `who` says so."""
        pauses.pause(self.context.fresh_store, self.name, note, who)

    def resume(self) -> None:
        """Hand out jobs again."""
        pauses.resume(self.context.fresh_store, self.name)

    def configure(self, **settings: Any) -> QueueSettings:
        """Store settings: max_rate, max_running, lanes, lanes_per_tenant, history_ttl, dead_letter, lease, paused,
        expires, expires_with_jobs, timeout, ordered, ordered_by, partitions. `schema`: put in force whatever was
        before; None for none.
        """
        schema = schema_from(settings["schema"]) if settings.get("schema") is not None else None
        changes_schema, settings = "schema" in settings, without_schema(settings)
        if "partitions" in settings:
            checked_partitioned(self.name)
            self.context.use_partitions()
        stored = store_settings(self.context.fresh_store, self.name, checked_settings(settings))
        if changes_schema:
            replace(self.context.fresh_store, self.name, schema)
            self.context.schemas.forget()
        if "paused" in settings:
            pauses.by_settings(self.context.fresh_store, self.name, paused=stored.paused)
        self.context.settings.forget()
        return stored

    def reset(self, *names: str) -> QueueSettings:
        """Reset these settings, or all, to what the code declares, or else to the defaults.

        Without names, `paused` is reset only if it is declared.
        """
        self.context.declare(self.name)
        self.context.use_partitions()
        current = self.settings
        changes = as_declared(current, names or resettable(current), self.context.fresh_store.now)
        stored = store_settings(self.context.fresh_store, self.name, changes)
        if "paused" in changes:
            pauses.by_settings(self.context.fresh_store, self.name, paused=stored.paused, who=pauses.CODE)
        self.context.settings.forget()
        return stored

    @property
    def settings(self) -> QueueSettings:
        """The stored settings; the defaults if the queue does not exist."""
        return settings_of(self.context.fresh_store, self.name)

    @property
    def schema(self) -> Schema | None:
        """The schema in force, with its version; None if the queue has none."""
        self.context.declare(self.name)
        return stored_schema(self.context.fresh_store, self.name).schema

    def delete(self) -> int:
        """Delete the queue with its jobs, history and counts; return the number of live jobs deleted."""
        return delete_queue(self.context, self.name)

    apush = off_loop(push)
    asize = off_loop(size)
    acancel = off_loop(cancel)
    apeek = off_loop(peek)
    aclear = off_loop(clear)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self.context!r}>"


def stored_queues(context: Context) -> list[Queue]:
    """Return all queues in the store, by name, without those that another program named as no queue may be named."""
    names = (settings.name for settings in context.fresh_store.queues())
    return [Queue(context, name) for name in names if is_queue(name)]


def delete_queue(context: Context, name: str) -> int:
    """Delete a queue, also one that no queue may be named like; return the number of live jobs deleted."""
    store = context.fresh_store if logical_name(name) == name else context.notice_partitions()
    deleted = store.drop_queue(name)
    context.declared.deleted(name)
    context.schemas.deleted(name)
    return deleted


def without_schema(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the schema, which is stored elsewhere."""
    return {name: value for name, value in settings.items() if name != "schema"}


def declared_queue(context: Context, name: str, settings: Mapping[str, Any]) -> Queue:
    """Return a queue. Settings given here are stored at its first use by this process, or by `setup`."""
    if settings.get("schema") is not None:
        context.schemas.declare(checked_queue(name), schema_from(settings["schema"]))
    if settings := without_schema(settings):
        if "partitions" in settings:
            checked_partitioned(name)
            context.use_partitions()
        context.declared.declare(checked_queue(name), checked_settings(settings))
    return Queue(context, name)
