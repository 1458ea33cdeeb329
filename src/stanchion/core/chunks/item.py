"""One item of a chunk, by its place among the items that were pushed together."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from stanchion.core.checks import brief
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput


class Item(NamedTuple):
    """An item of a chunk. `result`: None until it is done; `error`: the last one of its job, None if it is done."""

    name: str
    """`<id of the pushed job>/<place>`."""
    payload: Any
    result: Any = None
    error: str | None = None


class CarriesItems(Protocol):
    """A job that may carry a chunk, as `jobs.job.Job` is."""

    @property
    def id(self) -> str: ...
    @property
    def items(self) -> int | None: ...
    @property
    def payload(self) -> object: ...
    @property
    def result(self) -> object: ...


def item_of(job: CarriesItems, place: int, error: str | None) -> Item:
    """Return an item of a job. `error`: of the job. Raises InvalidInput if it does not have that item."""
    if job.items is None:
        raise InvalidInput(f"job {job.id} carries one item: read its payload, result and errors")
    if job.items == 0:
        raise InvalidInput(f"job {job.id} was divided: its items are in other jobs, whose origin it is; ask these")
    payload, result = job.payload, job.result
    assert isinstance(payload, Chunk)  # noqa: S101 - of a job with items
    index = index_in(payload, place)
    if index is None:
        raise no_such_item(job.id, payload, place)
    found = index_in(result, place) if isinstance(result, Chunk) else None
    value = result[found] if isinstance(result, Chunk) and found is not None else None
    return Item(f"{payload.root or job.id}/{place}", payload[index], value, error)


def index_in(chunk: Chunk, place: object) -> int | None:
    """Return the index of an item in a chunk; None if it is not there."""
    if isinstance(place, bool) or not isinstance(place, int):
        return None
    places = chunk.positions
    return places.index(place) if place in places else None


def no_such_item(job_id: str, chunk: Chunk, place: object) -> InvalidInput:
    """Return the error of an item that a chunk does not have."""
    first, last = chunk.positions[0], chunk.positions[-1]
    return InvalidInput(
        f"chunk {job_id} has no item {brief(place)}: it has {len(chunk):,} items, from {first} to {last}"
    )
