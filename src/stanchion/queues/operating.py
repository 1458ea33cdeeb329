"""Operating a queue: its jobs, its pauses and its settings; emptied queues, and history deleted by its age."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Unpack

from stanchion.context.context import Context
from stanchion.context.queues import pauses
from stanchion.context.queues.declared_settings import as_declared, resettable
from stanchion.context.queues.options import QueueOptions
from stanchion.context.queues.settings import checked_settings, settings_of, store_settings
from stanchion.core.checks import acted_ids, seconds_of
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.names.partition_names import checked_partitioned, logical_name
from stanchion.errors import JobNotFound
from stanchion.jobs import lookup
from stanchion.jobs.job import Job
from stanchion.queues.inspecting import Inspecting
from stanchion.schemas.models import schema_from
from stanchion.schemas.stored import replace
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import SECOND, JobRef, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import OUTCOMES, QueueSettings


class Operating(Inspecting):
    """Changes the jobs of a queue and its settings."""

    def cancel(self, job_id: str) -> JobState | None:
        """Cancel a job, or ask it to stop if it is running; return its new state, None if it is not in this queue."""
        wanted = lookup.acted(self._context, job_id)
        return lookup.cancel(self._context, wanted) if self.get(wanted) is not None else None

    def retry(self, job_id: str) -> Job:
        """Make a dead, cancelled or scheduled job ready now, with its attempts reset.

        Raises JobNotFound if it is not in this queue.
        """
        job = lookup.get(self._context, job_id)
        if job is not None and job.queue != self.name:
            raise JobNotFound(job_id, queue=self.name, found_in=job.queue)
        return lookup.retry(self._context, job_id)

    def replay(self, job_ids: Iterable[str]) -> list[Job]:
        """Enqueue copies of finished jobs of this queue; each names its origin. Other ids are left out."""
        ids = acted_ids(job_ids)
        known = self._context.fresh_store.fetch(ids)
        mine = [job_id for job_id in ids if job_id in known and logical_name(known[job_id].queue) == self.name]
        return lookup.replay(self._context, mine)

    def clear(self) -> int:
        """Delete the jobs that have not begun: ready, scheduled and waiting ones; return their number.

        Running jobs, history and settings stay. Members of flows are cancelled, so that their flows end.
        """
        return clear_queue(self._context.store, self.name)

    def purge_history(self, older_than: float | timedelta | None = None) -> int:
        """Delete jobs that finished more than `older_than` seconds ago (None: the queue's history_ttl)."""
        seconds = None if older_than is None else seconds_of(older_than, "older_than")
        return purge(self._context.fresh_store, self.name, seconds)

    def pause(self, note: str = "", who: str = "") -> None:
        """Stop handing out jobs, in all processes; running jobs finish. `note`: why, and until when; `who` says so."""
        pauses.pause(self._context.fresh_store, self.name, note, who)

    def resume(self) -> None:
        """Hand out jobs again."""
        pauses.resume(self._context.fresh_store, self.name)

    def configure(self, **settings: Unpack[QueueOptions]) -> QueueSettings:
        """Store settings; see `QueueOptions`. `schema`: put in force whatever was before; None for none."""
        schema = schema_from(settings["schema"]) if settings.get("schema") is not None else None
        given = without_schema(settings)
        if "partitions" in given:
            checked_partitioned(self.name)
            self._context.use_partitions()
        stored = store_settings(self._context.fresh_store, self.name, checked_settings(given))
        if "schema" in settings:
            replace(self._context.fresh_store, self.name, schema)
            self._context.schemas.forget()
        if "paused" in settings:
            pauses.by_settings(self._context.fresh_store, self.name, paused=stored.paused)
        self._context.settings.forget()
        return stored

    def reset(self, *names: str) -> QueueSettings:
        """Reset these settings, or all, to what the code declares, or else to the defaults.

        Without names, `paused` is reset only if it is declared.
        """
        self._context.declare(self.name)
        self._context.use_partitions()
        current = self.settings
        changes = as_declared(current, names or resettable(current), self._context.fresh_store.now)
        stored = store_settings(self._context.fresh_store, self.name, changes)
        if "paused" in changes:
            pauses.by_settings(self._context.fresh_store, self.name, paused=stored.paused, who=pauses.CODE)
        self._context.settings.forget()
        return stored

    def delete(self) -> int:
        """Delete the queue with its jobs, history and counts; return the number of live jobs deleted."""
        return delete_queue(self._context, self.name)

    acancel = off_loop(cancel)
    aretry = off_loop(retry)
    areplay = off_loop(replay)
    aclear = off_loop(clear)
    apurge_history = off_loop(purge_history)
    apause = off_loop(pause)
    aresume = off_loop(resume)
    aconfigure = off_loop(configure)
    areset = off_loop(reset)
    adelete = off_loop(delete)


def delete_queue(context: Context, name: str) -> int:
    """Delete a queue, also one that no queue may be named like; return the number of live jobs deleted."""
    store = context.fresh_store if logical_name(name) == name else context.notice_partitions()
    deleted = store.drop_queue(name)
    context.declared.deleted(name)
    context.schemas.deleted(name)
    return deleted


def without_schema(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings without the schema, which is stored elsewhere."""
    return {name: value for name, value in settings.items() if name != "schema"}


_AT_ONCE = 500
_NOT_BEGUN = (JobState.SCHEDULED.value, JobState.READY.value, JobState.WAITING.value)


def clear_queue(store: Store, queue: str) -> int:
    """Delete the jobs of a queue that have not begun and were stored before now; return their number.

    Jobs of flows are cancelled instead, so that their flows end.
    """
    where = (
        Condition("queue", "=", queue),
        Condition("state", "in", _NOT_BEGUN),
        Condition("enqueued_at", "<=", store.now()),
    )
    query = Query("live", where, order="id", limit=_AT_ONCE, columns=("id", "flow_root"))
    gone = 0
    for rows in pages(store, query):
        alone = [JobRef(job_id, None) for job_id, flow in rows if flow is None]
        members = [job_id for job_id, flow in rows if flow is not None]
        gone += sum(store.delete(alone)) if alone else 0
        gone += store.cancel(members).count(JobState.CANCELLED) if members else 0
    return gone


def purge(store: Store, queue: str, older_than: float | None = None) -> int:
    """Delete finished jobs that ended over `older_than` seconds ago (None: the queue's history_ttl).

    Return how many were deleted, in rounds; those that end meanwhile stay.
    """
    settings = settings_of(store, queue)
    ages = {one: settings.kept_for(one) if older_than is None else older_than for one in OUTCOMES}
    now, deleted = store.now(), 0
    for age in sorted(set(ages.values())):
        such = tuple(outcome for outcome in OUTCOMES if ages[outcome] == age)
        old = Condition("queue", "=", queue), Condition("finished_at", "<=", max(0, now - int(age * SECOND)))
        some = () if such == OUTCOMES else (Condition("state", "in", such),)
        query = Query("history", (*old, *some), order="finished", limit=_AT_ONCE, columns=("id", "finished_at"))
        deleted += sum(sum(store.delete([JobRef(*row) for row in rows])) for rows in pages(store, query))
    return deleted
