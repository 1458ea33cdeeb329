"""Cuts items by a field, such as the tenant: each chunk has the items of one value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Final
from zlib import crc32

from stanchion.core.checks import brief
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput

HELD: Final = 10
"""Chunks' worth of items that wait for more of their value. Beyond it, the largest group goes: input has no end."""


def as_text(value: object) -> str | None:
    """Return a text as the group of its items; None for any other value."""
    return value if isinstance(value, str) and value else None


def in_buckets(field: object, buckets: int) -> Callable[[object], str | None]:
    """Return what gives a text or an integer its bucket, in each process the same one: `customer:17`."""

    def bucket(value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            return None
        return f"{field}:{crc32(json.dumps(value).encode()) % buckets}"

    return bucket


def grouped(
    pieces: Iterable[Chunk],
    field: object,
    size: int,
    what: str,
    group_of: Callable[[object], str | None] = as_text,
) -> Iterator[tuple[str, Chunk]]:
    """Yield each group of the values in a field of the items, with chunks of at most `size` items, in their order.

    `what`: the meaning of the field, for errors. Raises InvalidInput for an item whose value has no group.
    """
    if not isinstance(field, str):
        raise InvalidInput(f"{what} must be the name of a field of the items, not {brief(field)}")
    groups: dict[str, list[Chunk]] = {}
    held, first = 0, 0
    for piece in pieces:
        places: dict[str, list[int]] = {}
        for place, value in zip(count(), _values(piece, field)):
            if (group := group_of(value)) is None:
                raise InvalidInput(
                    f"{what}={field!r} is the field of each item that has its {what}, and item {first + place} has "
                    f"{brief(value)} there"
                )
            places.setdefault(group, []).append(place)
        first += len(piece)
        for value, some in places.items():
            groups.setdefault(value, []).append(piece.take(some))
            held += len(some)
            while _items(groups[value]) >= size:
                whole = Chunk.joined(groups[value])
                groups[value] = [whole[size:]] if len(whole) > size else []
                held -= size
                yield value, whole[:size].named(None)
        while held > HELD * size:
            largest = max(groups, key=lambda one: _items(groups[one]))
            held -= _items(groups[largest])
            yield largest, Chunk.joined(groups.pop(largest)).named(None)
        groups = {value: waiting for value, waiting in groups.items() if waiting}
    for value, rest in groups.items():
        yield value, Chunk.joined(rest).named(None)


def _items(chunks: Sequence[Chunk]) -> int:
    return sum(map(len, chunks))


def _values(piece: Chunk, field: str) -> Iterable[object]:
    columns = piece.columns()
    if columns is not None:
        found: list[object] = (
            columns.column(field).to_pylist() if field in columns.column_names else [None] * len(piece)
        )
        return found
    return [item.get(field) if isinstance(item, dict) else None for item in piece.values]
