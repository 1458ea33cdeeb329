"""Jobs of any queue by their ids: look them up, cancel, retry and replay them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Unpack

from stanchion.core.checks import acted_id, acted_ids, checked_id, named_item
from stanchion.core.ids import new_ids
from stanchion.core.names.partition_names import logical_name
from stanchion.errors import DuplicateKey, InvalidInput, JobNotFound
from stanchion.jobs.job import FreshJob, Job
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.rules.lifecycle.jobs import copy_of, state_of

if TYPE_CHECKING:
    from stanchion.context.context import Context
    from stanchion.jobs.search import Search
    from stanchion.stores.protocol import Store


def job_of(context: Context, row: JobRow, *, duplicate: bool = False) -> Job:
    """Return a stored row as a job."""
    return Job(context, row, state_of(row, context.store.now()), duplicate=duplicate)


def jobs_of(context: Context, new: Sequence[NewJob], stored: Sequence[Pushed]) -> list[Job]:
    """Return the jobs of a push; duplicates are read from the store."""
    duplicates = [pushed.id for pushed in stored if pushed.duplicate]
    known = context.store.fetch(duplicates) if duplicates else {}
    return [
        job_of(context, known[pushed.id], duplicate=True)
        if pushed.duplicate and pushed.id in known
        else FreshJob(context, job, pushed)
        for job, pushed in zip(new, stored, strict=True)
    ]


def get(context: Context, job_id: str) -> Job | None:
    """Return the job, live or finished, or None."""
    row = context.store.fetch([checked_id(job_id)]).get(job_id)
    return None if row is None else job_of(context, row)


def find(context: Context, **search: Unpack[Search]) -> list[Job]:
    """Search live and finished jobs, newest first; see `Queue.find`."""
    from stanchion.jobs.contents import selected
    from stanchion.jobs.search import contents_of, query_of
    from stanchion.stores.letters import ByHome

    query, contents = query_of(search), contents_of(search)
    store, now = ByHome(context.fresh_store), context.store.now()
    rows = selected(store, query, contents, context.codec) if any(contents) else store.select(query).rows
    return [Job(context, row, state_of(row, now)) for row in rows]


def acted(context: Context, job_id: str) -> str:
    """Return the id of a job to act on. Raises InvalidInput for other text, and for the name of an item of a chunk."""
    refuse_items(context, [job_id])
    return acted_id(job_id)


def refuse_items(context: Context, names: Iterable[str]) -> None:
    """Raise InvalidInput if one of these is the name of an item of a chunk: it says how to act on the item alone."""
    for name in names:
        if (item := named_item(name)) is not None:
            raise InvalidInput(_of_chunk(context, *item))


def _of_chunk(context: Context, job_id: str, place: int) -> str:
    """Return how to act on an item alone."""
    row = context.store.fetch([job_id]).get(job_id)
    if row is None:
        raise JobNotFound(job_id)
    if row.items is None:
        return f"job {job_id} carries one item: give its id, without /{place}"
    if row.items == 0:
        return f"chunk {job_id} was divided: item {place} is in a job whose origin is the chunk, or one of its parts"
    return (
        f"item {place} is part of chunk {job_id}, which has {row.items:,} items; split it first: "
        f"etl.split({job_id!r}, [{place}])"
    )


def cancel(context: Context, job_id: str) -> JobState | None:
    """Cancel a job, or ask it to stop if it is running; return its new state, or None if it is unknown.

    Raises InvalidInput for text that is no id.
    """
    return context.store.cancel([acted(context, job_id)])[0]


def retry(context: Context, job_id: str) -> Job:
    """Make a dead, cancelled or scheduled job ready now, with its attempts reset."""
    verdict = context.store.retry([acted(context, job_id)])[0]
    row = context.store.fetch([job_id]).get(job_id)
    if verdict is Redriven.DONE:
        raise InvalidInput(f"job {job_id} is done; to run it once more, enqueue a copy with replay()")
    if verdict is Redriven.RUNNING:
        raise InvalidInput(f"job {job_id} is running; cancel it, or wait until it has finished")
    if verdict is Redriven.KEY_TAKEN:
        raise DuplicateKey(logical_name(row.queue) if row else "?", (row.key if row else None) or "?", job_id)
    if verdict is Redriven.MISSING or row is None:
        raise JobNotFound(job_id)
    return job_of(context, row)


def replay(context: Context, job_ids: Iterable[str]) -> list[Job]:
    """Enqueue copies of finished jobs; each names its origin. Ids not in history are left out."""
    origins = acted_ids(job_ids)
    copies = push_copies(context.store, origins, new_ids(len(origins)))
    rows = context.store.fetch([copy.id for copy in copies if copy is not None])
    return [job_of(context, rows[copy.id]) for copy in copies if copy is not None and copy.id in rows]


def push_copies(store: Store, ids: Sequence[str], copy_ids: Sequence[str]) -> list[Pushed | None]:
    """Store copies of finished jobs, as they were enqueued; each names its origin. None for those not in history."""
    rows = store.fetch(ids)
    copies = {
        copy_id: copy_of(rows[job_id], copy_id)
        for job_id, copy_id in zip(ids, copy_ids, strict=True)
        if job_id in rows and rows[job_id].finished_at is not None
    }
    pushed = dict(zip(copies, store.push(list(copies.values())), strict=True))
    return [pushed.get(copy_id) for copy_id in copy_ids]
