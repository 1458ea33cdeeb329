"""Pushing items as chunks: one job carries many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stanchion.context.context import Context
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.cutting import cut, fitting_each, of_size
from stanchion.core.chunks.grouping import grouped
from stanchion.core.chunks.stored import stored
from stanchion.core.ids import new_id
from stanchion.core.types import Transaction
from stanchion.core.values.plain import plain_model
from stanchion.errors import InvalidInput
from stanchion.jobs import lookup
from stanchion.jobs.insert import store_batches
from stanchion.jobs.job import Job
from stanchion.jobs.options import PushOptions, checked
from stanchion.stores.records.jobs import NewJob

SIZE: Final = 10_000
"""Items of a chunk: more bring no more speed, and are repeated if a worker dies."""

AT_ONCE: Final = 8
"""Chunks stored in one step."""

_OF_ITEMS: Final = {
    "key": "make it a column and expect it downstream, or push the items one by one",
    "order_key": "push the items one by one: those of one key then run in order",
}
"""Options that items have, and what to do instead of giving them to chunks."""


def push_chunks(
    context: Context, queue: str, items: object, size: int, tx: Transaction | None, options: PushOptions
) -> list[Job]:
    """Store items in chunks; return the jobs that carry them. See `Pipeline.push_chunks`."""
    for option, instead in _OF_ITEMS.items():
        if option in options:
            raise InvalidInput(f"{option} belongs to an item, and a chunk has many: {instead}")
    jobs = _jobs(context, queue, items, size, options)
    return [job for new, pushed in store_batches(context, jobs, tx) for job in lookup.jobs_of(context, new, pushed)]


def _jobs(context: Context, queue: str, items: object, size: int, options: PushOptions) -> Iterator[list[NewJob]]:
    new = list[NewJob]()
    by = options.get("tenant")
    for tenant, chunk in _cut(context, items, size, by):
        of_tenant: PushOptions = options if tenant is None else {**options, "tenant": tenant}
        fields = checked(of_tenant, context.codec, queue=queue, declared=context.declared_rate) if options else {}
        new.append(NewJob(new_id(), queue, stored(context.codec, chunk), **fields))
        if len(new) == AT_ONCE:
            yield new
            new = []
    if new:
        yield new


def _cut(context: Context, items: object, size: int, tenant: str | None) -> Iterator[tuple[str | None, Chunk]]:
    """Yield chunks of items, of one tenant each if items have their tenant in a field."""
    codec, most = context.codec, context.codec.max_payload
    if tenant is None:
        for chunk in cut(items, size, most, "item", codec.to_plain(plain_model)):
            yield None, chunk
        return
    pieces = of_size(items, size, "item", codec.to_plain(plain_model))
    for value, group in grouped(pieces, tenant, size, "tenant"):
        for chunk in fitting_each([group], most, "item"):
            yield value, chunk
