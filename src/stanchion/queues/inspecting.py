"""Reading a queue: its sizes, jobs and settings."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from stanchion.context.queues.settings import settings_of
from stanchion.context.shard import shown_lane
from stanchion.core.checks import refuse_unknown, whole
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.times import moment
from stanchion.jobs import lookup
from stanchion.jobs.facts import has_passed
from stanchion.jobs.job import Job, JobState
from stanchion.jobs.search import MAX_PAGE, PageOptions
from stanchion.queues.part import QueuePart
from stanchion.schemas.kinds import Schema
from stanchion.schemas.stored import stored_schema
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import Counts, QueueSettings, QueueStats, Sizes, Stat

LANE_JOBS_MAX = 1 << 30
"""A bound above the depth of any lane."""


class Inspecting(QueuePart):
    """Reads the jobs and the settings of a queue."""

    def size(self) -> Sizes:
        """Count the live jobs."""
        return self._stats("states").states

    def counts(self) -> Counts:
        """Return the totals of this queue since its creation."""
        return self._stats("totals").totals

    def lanes(self) -> dict[int | None, int]:
        """Count the queued jobs of each lane that has any; None stands for no lane."""
        depths = self._context.fresh_store.lane_depths(self.name, at_most=LANE_JOBS_MAX)
        return {shown_lane(lane): depths[lane] for lane in sorted(depths)}

    def next_due(self) -> datetime | None:
        """Return when the first live, unreserved job is due, or None; after an expired lease, since the lease's end."""
        return moment(self._stats("next_due").next_due)

    def _stats(self, field: Stat) -> QueueStats:
        return self._context.fresh_store.stats([self.name], [field])[self.name]

    def get(self, job_id: str, *, passed: bool = False) -> Job | None:
        """Return the job if it is in this queue, live or finished; else None. `passed`: also if it has moved on."""
        job = lookup.get(self._context, job_id)
        if job is None or (job.queue != self.name and not (passed and has_passed(job, self.name))):
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
            return lookup.find(self._context, passed=self.name, **search)
        return lookup.find(self._context, queue=self.name, **search)

    def history(self, *, limit: int = 100, after: str | None = None) -> list[Job]:
        """Return finished jobs, newest first."""
        return self.find(state=[state for state in JobState if state.final], limit=limit, after=after)

    def peek(self, n: int = 1) -> list[Job]:
        """Return up to `n` ready jobs in claim order, without changing anything.

        Claims of a queue with lanes alternate between them; here the jobs of all lanes are in one order.
        """
        store = self._context.fresh_store
        due = Condition("queue", "=", self.name), Condition("run_at", "<=", store.now())
        page = store.select(Query("live", due, order="due", limit=whole(n, "n", 1, MAX_PAGE)))
        return [Job(self._context, row, JobState.READY) for row in page.rows]

    def get_settings(self) -> QueueSettings:
        """Return the stored settings; the defaults if the queue does not exist."""
        return settings_of(self._context.fresh_store, self.name)

    def get_schema(self) -> Schema | None:
        """Return the schema in force, with its version; None if the queue has none."""
        self._context.declare(self.name)
        return stored_schema(self._context.fresh_store, self.name).schema

    @property
    def settings(self) -> QueueSettings:
        """The stored settings, read from the store; see `get_settings`."""
        return self.get_settings()

    @property
    def schema(self) -> Schema | None:
        """The schema in force, read from the store; see `get_schema`."""
        return self.get_schema()

    asize = off_loop(size)
    acounts = off_loop(counts)
    alanes = off_loop(lanes)
    anext_due = off_loop(next_due)
    aget = off_loop(get)
    afind = off_loop(find)
    ahistory = off_loop(history)
    apeek = off_loop(peek)
    aget_settings = off_loop(get_settings)
    aget_schema = off_loop(get_schema)
