"""A queue: push, pop, reserve; look and operate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from stanchion.checking import checked_ids, refuse_unknown, several, whole
from stanchion.declaring import as_declared, resettable
from stanchion.errors import DuplicateKey, InvalidInput, JobNotFound
from stanchion.finding import PageOptions
from stanchion.ids import new_ids
from stanchion.job import FreshJob, Job, JobState
from stanchion.lanes import shown_lane, stored_range
from stanchion.offloop import off_loop
from stanchion.options import PushOptions, checked, checked_name, seconds_of
from stanchion.reservation import Reservation
from stanchion.settings import checked_settings, store_settings
from stanchion.stores.records import (
    Claim,
    Counts,
    JobRow,
    NewJob,
    Pushed,
    QueueSettings,
    Redriven,
    Sizes,
)
from stanchion.taking import Taking
from stanchion.times import moment

if TYPE_CHECKING:
    from stanchion.app import Stanchion

T = TypeVar("T")

BATCH = 2000
"""Jobs per round trip of the bulk calls."""

MOST_RESERVED = 1_000_000
"""Jobs that one call may reserve."""

BATCH_CHARACTERS = 8 * 1024 * 1024
"""Characters of payload per round trip, unless a single job has more."""


class Push:
    """A payload with options of its own, for `push_many`."""

    __slots__ = ("options", "payload")

    def __init__(self, payload: Any, **options: Unpack[PushOptions]) -> None:
        refuse_unknown(options, PushOptions.__optional_keys__)
        self.payload, self.options = payload, options


class Queue:
    """A named line of jobs. Made by `app.queue(name)`."""

    def __init__(self, app: Stanchion, name: str) -> None:
        self.app, self.name = app, checked_name(name, "queue")

    # -- in

    def push(self, payload: Any, *, tx: Any = None, **options: Unpack[PushOptions]) -> Job:
        """Store one job; with `tx`, in that transaction. A duplicate `key` returns the job that has it."""
        return self.push_many([Push(payload, **options)], tx=tx)[0]

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
        stored = store_batches(self.app, (self._new(batch) for batch in batches(items)), tx)
        if isinstance(items, Collection):
            return [job for new, pushed in stored for job in jobs_of(self.app, new, pushed)]
        return sum(not one.duplicate for _, pushed in stored for one in pushed)

    def _new(self, items: Sequence[Any]) -> list[NewJob]:
        encode, codec = self.app.codec.encode, self.app.codec
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
        return Taking(self.app, Claim(self.name, 1, ""), seconds_of(wait, "wait"), pops=True)

    def _popped(self, rows: list[JobRow]) -> Job | None:
        return Job(self.app, rows[0], JobState.DONE) if rows else None

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
        return Taking(self.app, wish, seconds_of(wait, "wait"))

    def _reserved(self, rows: list[JobRow]) -> list[Reservation]:
        return [Reservation(self.app, row) for row in rows]

    # -- looking

    def size(self) -> Sizes:
        """Count the live jobs."""
        return self.app.store.sizes(self.name)

    def counts(self) -> Counts:
        """Return what happened in this queue since it was made."""
        return self.app.store.counts(self.name)

    def lanes(self) -> dict[int | None, int]:
        """Count the queued jobs of each lane that has some; None stands for those that are in no lane."""
        depths = self.app.store.lane_depths(self.name, at_most=None)
        return {shown_lane(lane): depths[lane] for lane in sorted(depths)}

    def next_due(self) -> datetime | None:
        """Return the earliest `run_at` of a live, unreserved job, or None."""
        return moment(self.app.store.next_due([self.name]))

    def get(self, job_id: str) -> Job | None:
        """Return the job if it is, or ended, in this queue."""
        job = self.app.get(job_id)
        return job if job is not None and job.queue == self.name else None

    def find(self, **search: Unpack[PageOptions]) -> list[Job]:
        """Search live and finished jobs, newest first.

        `since` and `until` bound the time of the enqueue; `text` is part of the payload or of an error;
        `after` is the last id of the page before.
        """
        refuse_unknown(search, PageOptions.__optional_keys__, "option of a search")
        return self.app.find(queue=self.name, **search)

    def history(self, *, limit: int = 100, after: str | None = None) -> list[Job]:
        """Return finished jobs, newest first."""
        return self.find(state=[state for state in JobState if state.final], limit=limit, after=after)

    # -- operating

    def cancel(self, job_id: str) -> JobState | None:
        """Cancel a job, or ask it to stop if it runs; return its state after that, None if it is not in this queue."""
        return self.app.cancel(job_id) if self.get(job_id) is not None else None

    def retry(self, job_id: str) -> Job:
        """Make a dead, cancelled or scheduled job ready now, with all attempts before it.

        JobNotFound for one that is not in this queue.
        """
        job = self.app.get(job_id)
        if job is not None and job.queue != self.name:
            raise JobNotFound(job_id, queue=self.name, found_in=job.queue)
        return self.app.retry_job(job_id)

    def replay(self, job_ids: Iterable[str]) -> list[Job]:
        """Enqueue copies of finished jobs of this queue; each names its origin. Ids of others are left out."""
        ids = checked_ids(job_ids)
        known = self.app.store.fetch(ids)
        return self.app.replay([job_id for job_id in ids if job_id in known and known[job_id].queue == self.name])

    def purge_history(self, older_than: float | timedelta | None = None) -> int:
        """Delete history that ended longer ago than this (None: than the queue's history_ttl)."""
        seconds = None if older_than is None else seconds_of(older_than, "older_than")
        purged = 0
        while count := self.app.store.purge(self.name, seconds):
            purged += count
        return purged

    def pause(self) -> None:
        """Stop handing out jobs, for every process; running ones finish."""
        self.app.store.configure(self.name, {"paused": True})

    def resume(self) -> None:
        """Hand out jobs again."""
        self.app.store.configure(self.name, {"paused": False})

    def configure(self, **settings: Any) -> QueueSettings:
        """Store settings: max_rate, max_running, lanes, lanes_per_tenant, history_ttl, dead_letter, lease, paused,
        expires, expires_with_jobs.
        """
        stored = store_settings(self.app.store, self.name, checked_settings(settings))
        self.app.lanes.forget()
        return stored

    def reset(self, *names: str) -> QueueSettings:
        """Go back to what the code declares, and to the defaults where it says nothing: these settings, or all.

        All but `paused`, unless it is named or declared.
        """
        self.app.declare(self.name)
        current = self.settings
        changes = as_declared(current, names or resettable(current), self.app.store.now)
        stored = store_settings(self.app.store, self.name, changes)
        self.app.lanes.forget()
        return stored

    @property
    def settings(self) -> QueueSettings:
        """The stored settings."""
        return self.app.store.configure(self.name, {})

    def delete(self) -> int:
        """Delete the queue with its jobs, history and counts; return how many live jobs that were."""
        return self.app.store.drop_queue(self.name)

    apush = off_loop(push)
    asize = off_loop(size)
    acancel = off_loop(cancel)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self.app!r}>"


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """Cut an iterator into lists of up to `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def store_batches(
    app: Stanchion, new: Iterable[list[NewJob]], tx: Any = None
) -> Iterator[tuple[list[NewJob], list[Pushed]]]:
    """Store batches one after the other; while one is being stored, the next is made."""
    batches = (portion for batch in new for portion in portions(batch))
    first = next(batches, None)
    second = next(batches, None) if tx is None else None
    if second is None:  # one batch, or a transaction that must stay in its thread
        yield from ((batch, app.store_new(batch, tx)) for batch in chain([first] if first else [], batches))
        return
    assert first is not None  # noqa: S101 - it came before the second
    with ThreadPoolExecutor(1, "stanchion-push") as storing:
        under_way = storing.submit(app.store_new, first)
        for batch in chain([second], batches):
            stored, under_way = under_way.result(), storing.submit(app.store_new, batch)
            yield first, stored
            first = batch
        yield first, under_way.result()


def portions(jobs: list[NewJob]) -> Iterator[list[NewJob]]:
    """Cut a batch where its payloads add up to more than a call should carry."""
    portion: list[NewJob] = []
    size = 0
    for job in jobs:
        if portion and size + len(job.payload) > BATCH_CHARACTERS:
            yield portion
            portion, size = [], 0
        portion.append(job)
        size += len(job.payload)
    if portion:
        yield portion


def jobs_of(app: Stanchion, new: Sequence[NewJob], stored: Sequence[Pushed]) -> list[Job]:
    """Return the jobs of a push; a duplicate is read as it is now."""
    duplicates = [pushed.id for pushed in stored if pushed.duplicate]
    known = app.store.fetch(duplicates) if duplicates else {}
    return [
        app.job_of(known[pushed.id], duplicate=True)
        if pushed.duplicate and pushed.id in known
        else FreshJob(app, job, pushed)
        for job, pushed in zip(new, stored, strict=True)
    ]


def redriven_or_raise(job_id: str, verdict: Redriven, row: JobRow | None) -> None:
    """Turn a retry's verdict into the error that says what to do."""
    if verdict is Redriven.MISSING:
        raise JobNotFound(job_id)
    if verdict is Redriven.DONE:
        raise InvalidInput(f"job {job_id} is done; to run it once more, enqueue a copy with replay()")
    if verdict is Redriven.RUNNING:
        raise InvalidInput(f"job {job_id} is running; cancel it, or wait until it has finished")
    if verdict is Redriven.KEY_TAKEN:
        raise DuplicateKey(row.queue if row else "?", (row.key if row else None) or "?", job_id)
