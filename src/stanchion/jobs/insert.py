"""Inserting new jobs, one or many: the one function through which they enter the store.

Steps: (1) store the declared settings of their queues, (2) apply the options of stations to their items, (3) check that
their semaphores are known and that payloads fit the schemas, (4) choose partitions and lanes, (5) store the jobs, (6)
fire the event. With traces, a span covers all of it, and the jobs get its context in step 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextvars import copy_context
from itertools import chain, islice
from operator import attrgetter
from typing import TypeVar

from stanchion.context.context import Context
from stanchion.context.queues.settings import settings_of
from stanchion.errors import InvalidInput
from stanchion.stores.ports import Partitions
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob, Pushed


def make_ready(context: Context, jobs: list[NewJob], tx: object = None, *, checks_payloads: bool = True) -> Store:
    """Prepare new jobs, changing the list in place; return the store to insert them into.

    `checks_payloads`: False if the jobs stand for something else, and have no payloads of their own.

    Raises InvalidInput for a job with an undeclared semaphore, or one that its station can't take, and PayloadMisfit.
    """
    store = context.store
    if context.declared.settings or context.schemas.declared:
        if not (context.declared.is_stored(store) and context.schemas.are_stored(store)):
            for queue in {job.queue for job in jobs}:
                context.declare(queue, tx)
        if tx is None:
            context.keep_declared()
    if tx is None:
        context.store_texts(store)
    if stations := context.registry.stations:
        jobs[:] = [stations[job.queue].fitted(job) if job.queue in stations else job for job in jobs]
    if context.traces is not None:
        jobs[:] = context.traces.stamped(jobs)
    for job in jobs:
        if job.limits is not None:
            context.semaphores.check(jobs, store, tx)
            break
    if (concerned := context.settings.of(store, set(map(_QUEUE, jobs)))) and checks_payloads:
        context.schemas.check(store, context.codec, jobs, concerned)
    if (partitions := store.extension(Partitions)) is not None:
        jobs[:] = partitions.placed(jobs)
        concerned = context.settings.of(store, set(map(_QUEUE, jobs)))
    context.lanes.assign(store, jobs, concerned)
    if set(map(_KEY_TTL, jobs)) - _NONE:
        _check_key_ttl(store, jobs)
    return context.current_store()


def _check_key_ttl(store: Store, jobs: Sequence[NewJob]) -> None:
    """Raise InvalidInput for a key that is to hold for longer than its queue keeps history."""
    for queue, ttl in {job.queue: job.key_ttl for job in jobs if job.key_ttl is not None}.items():
        if ttl > (kept := settings_of(store, queue).kept_at_least):
            raise InvalidInput(
                f"key_ttl={ttl:g} is more than the {kept:g} seconds for which queue {queue!r} keeps its history, where "
                f"the key is found; keep more history, or lower key_ttl"
            )


_KEY_TTL, _QUEUE, _NONE = attrgetter("key_ttl"), attrgetter("queue"), {None}


def insert(context: Context, jobs: list[NewJob], tx: object = None) -> list[Pushed]:
    """Store new jobs, changing the list in place; fire the event for all but duplicates."""
    if context.traces is None:
        return _inserted(context, jobs, tx)
    with context.traces.pushing(jobs) as span:
        pushed = _inserted(context, jobs, tx)
        if len(pushed) == 1:
            context.traces.pushed(span, pushed[0].id)
        return pushed


def _inserted(context: Context, jobs: list[NewJob], tx: object) -> list[Pushed]:
    store = make_ready(context, jobs, tx)
    if (partitions := store.extension(Partitions)) is not None:
        jobs[:] = partitions.placed(jobs)  # by layouts that were noticed just now: the caller sees the partitions
    pushed = store.push(jobs, tx)
    if context.events.hears("pushed"):
        from stanchion.jobs.lookup import jobs_of

        for job in jobs_of(context, jobs, pushed):
            if not job.duplicate:
                context.events.fire("pushed", job)
    return pushed


def announce(context: Context, jobs: Sequence[NewJob]) -> None:
    """Fire the event for jobs that were stored with a flow."""
    if jobs and context.events.hears("pushed"):
        from stanchion.jobs.job import Job
        from stanchion.stores.rules.lifecycle.jobs import created, state_of

        now = context.store.now()
        for row in (created(job, now) for job in jobs):
            context.events.fire("pushed", Job(context, row, state_of(row, now)))


T = TypeVar("T")

BATCH = 2000
"""Jobs per round trip of the bulk calls."""

BATCH_CHARACTERS = 8 * 1024 * 1024
"""Characters of payload per round trip, unless a single job has more."""


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """Split an iterable into lists of up to `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def store_batches(
    context: Context, new: Iterable[list[NewJob]], tx: object = None
) -> Iterator[tuple[list[NewJob], list[Pushed]]]:
    """Store batches one after the other; prepare the next while one is being stored."""
    batches = (chunk for batch in new for chunk in chunks(batch))
    first = next(batches, None)
    second = next(batches, None) if tx is None else None
    if second is None:  # one batch, or a transaction that must stay in its thread
        yield from ((batch, insert(context, batch, tx)) for batch in chain([first] if first else [], batches))
        return
    from concurrent.futures import ThreadPoolExecutor

    assert first is not None  # noqa: S101 - it came before the second
    here = copy_context()  # of the caller, with the trace that it is in
    with ThreadPoolExecutor(1, "stanchion-push") as storing:
        under_way = storing.submit(here.run, insert, context, first)
        for batch in chain([second], batches):
            stored, under_way = under_way.result(), storing.submit(here.run, insert, context, batch)
            yield first, stored
            first = batch
        yield first, under_way.result()


def chunks(jobs: list[NewJob]) -> Iterator[list[NewJob]]:
    """Split a batch so that the payloads of each chunk fit into one call (BATCH_CHARACTERS)."""
    from stanchion.core.batches import batches_within

    return batches_within(BATCH_CHARACTERS, jobs, lambda job: len(job.payload))
