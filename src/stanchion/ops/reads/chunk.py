"""The items of a chunk as people see them: some at a time, with their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from stanchion.core.chunks.chunk import SHOWN, Chunk
from stanchion.core.text.hiding import Hidden
from stanchion.core.text.redaction import JobRedaction
from stanchion.errors import StanchionError
from stanchion.jobs.job import Job
from stanchion.ops.job_json import readable

FIRST: Final = SHOWN
"""Items that are shown with a job."""
MORE: Final = 50
"""Items of a further page."""

Hide = Callable[[object], object]
"""Returns a value without what people are not to see."""


class Items(NamedTuple):
    """Some items of a chunk. `columns`: the types of its fields, None where the items are stored as JSON.

    `items`: the number and the value of each. `before`, `after`: where the neighbouring pages begin.
    """

    number: int
    bytes: int
    columns: dict[str, str] | None
    items: list[tuple[int, object]]
    before: int | None
    after: int | None


def items_of(chunk: Chunk, hide: Hide, since: int | None = None, limit: int = FIRST) -> Items:
    """Return the first items of a chunk, or those from the number `since` on.

    Only these are decoded from the columns. Raises StanchionError if the chunk can't be read.
    """
    places, table = chunk.positions, chunk.columns()
    start = 0 if since is None else next((index for index, place in enumerate(places) if place >= since), len(places))
    stop = min(start + limit, len(places))
    values = [hide(value) for value in chunk[start:stop].values]
    return Items(
        number=len(chunk),
        bytes=len(chunk.encoded()),
        columns=None if table is None else {field.name: str(field.type) for field in table.schema},
        items=list(zip(places[start:stop], values, strict=True)),
        before=places[max(0, start - limit)] if start else None,
        after=places[stop] if stop < len(places) else None,
    )


def chunk_of(job: Job) -> Chunk | None:
    """Return the chunk that a job carries; None if it carries none, or one that this process has no key for."""
    try:
        payload = job.payload if job.items else None
    except StanchionError:
        return None
    return payload if isinstance(payload, Chunk) else None


def hiding(job: Job, hidden: Hidden | None, *, reveal: bool) -> Hide:
    """Return what hides values of a job's items, as of its payload. `hidden`: what its task hides."""
    return (lambda value: value) if reveal else JobRedaction(hidden, readable(job, "payload")[0]).call


def with_items(shape: dict[str, object], job: Job, hide: Hide) -> dict[str, object]:
    """Return the JSON of a job with the first items of its chunk as the payload; unchanged if it has none to read."""
    if (chunk := chunk_of(job)) is None:
        return shape
    try:
        return {**shape, "payload": as_json(items_of(chunk, hide))}
    except StanchionError as error:
        return {**shape, "unreadable": str(error)}


def as_json(found: Items) -> dict[str, object]:
    """Return items as JSON has them."""
    items = [{"item": place, "value": value} for place, value in found.items]
    return {"items": found.number, "bytes": found.bytes, "columns": found.columns, "shown": items, "next": found.after}
