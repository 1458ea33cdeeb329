"""Bulk inserts, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import copy_context
from itertools import chain, islice
from typing import Any, TypeVar

from stanchion.context.context import Context
from stanchion.core.chunks import chunks_within
from stanchion.jobs.insert import insert
from stanchion.stores.records.jobs import NewJob, Pushed

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
    context: Context, new: Iterable[list[NewJob]], tx: Any = None
) -> Iterator[tuple[list[NewJob], list[Pushed]]]:
    """Store batches one after the other; prepare the next while one is being stored."""
    batches = (portion for batch in new for portion in portions(batch))
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


def portions(jobs: list[NewJob]) -> Iterator[list[NewJob]]:
    """Split a batch so that the payloads of each portion fit into one call (BATCH_CHARACTERS)."""
    return chunks_within(BATCH_CHARACTERS, jobs, lambda job: len(job.payload))
