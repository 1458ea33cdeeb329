"""Pushing items as chunks: one job carries many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from stanchion.context.context import Context
from stanchion.core.checks import whole
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.cutting import cut, fitting_each, of_size
from stanchion.core.chunks.grouping import as_text, grouped, in_buckets
from stanchion.core.chunks.stored import stored
from stanchion.core.ids import PLACES, new_id_with_room
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

BUCKETS: Final = 64
"""Streams of chunks into which items with order keys are cut."""

_CUTTING: Final[tuple[Literal["tenant", "order_key"], ...]] = ("tenant", "order_key")
"""Options that name a field of the items: each chunk has the items of one of its values, or of a group of them."""


def push_chunks(
    context: Context, queue: str, items: object, size: int, buckets: int, tx: Transaction | None, options: PushOptions
) -> list[Job]:
    """Store items in chunks; return the jobs that carry them. See `Pipeline.push_chunks`."""
    if "key" in options:
        instead = "make it a column and expect it downstream, or push the items one by one"
        raise InvalidInput(f"key belongs to an item, and a chunk has many: {instead}")
    if all(options.get(name) is not None for name in _CUTTING):
        raise InvalidInput(
            "tenant and order_key both name the field by which items are cut into chunks: give one; of a pipeline with "
            "ordered_by='tenant', the chunks of a tenant run in order"
        )
    jobs = _jobs(context, queue, items, size, whole(buckets, "buckets"), options)
    return [job for new, pushed in store_batches(context, jobs, tx) for job in lookup.jobs_of(context, new, pushed)]


def _jobs(
    context: Context, queue: str, items: object, size: int, buckets: int, options: PushOptions
) -> Iterator[list[NewJob]]:
    new = list[NewJob]()
    by = next((name for name in _CUTTING if options.get(name) is not None), None)
    for value, chunk in _cut(context, items, size, buckets, by, options):
        of_value: PushOptions = options
        if by is not None:
            of_value = {**options, "tenant": value} if by == "tenant" else {**options, "order_key": value}
        fields = checked(of_value, context.codec, queue=queue, declared=context.declared_rate) if options else {}
        new.append(NewJob(new_id_with_room(), queue, stored(context.codec, chunk), **fields))
        if len(new) == AT_ONCE:
            yield new
            new = []
    if new:
        yield new


def _cut(
    context: Context,
    items: object,
    size: int,
    buckets: int,
    by: Literal["tenant", "order_key"] | None,
    options: PushOptions,
) -> Iterator[tuple[str | None, Chunk]]:
    """Yield chunks of items: of one tenant, or one bucket of order keys each, if items have these in a field."""
    codec, most = context.codec, context.codec.max_payload
    if by is None:
        for chunk in cut(items, size, most, "item", codec.to_plain(plain_model)):
            yield None, chunk
        return
    field = options[by]
    group_of = in_buckets(field, buckets) if by == "order_key" else as_text
    size = min(size, PLACES)
    pieces = of_size(items, size, "item", codec.to_plain(plain_model))
    for value, group in grouped(pieces, field, size, by, group_of):
        for chunk in fitting_each([group], most, "item"):
            yield value, chunk
