"""Cuts items by a field, such as the tenant: each chunk has the items of one value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from stanchion.core.checks import brief
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput

HELD: Final = 10
"""Chunks' worth of items that wait for more of their value. Beyond it, the largest group goes: input has no end."""


def grouped(pieces: Iterable[Chunk], field: object, size: int, what: str) -> Iterator[tuple[str, Chunk]]:
    """Yield each text in a field of the items, with chunks of at most `size` of its items, in their order.

    `what`: the meaning of the field, for errors. Raises InvalidInput for an item without a text there.
    """
    if not isinstance(field, str):
        raise InvalidInput(f"{what} must be the name of a field of the items, not {brief(field)}")
    groups: dict[str, list[Chunk]] = {}
    held, first = 0, 0
    for piece in pieces:
        places: dict[str, list[int]] = {}
        for place, value in zip(count(), _values(piece, field)):
            if not isinstance(value, str) or not value:
                raise InvalidInput(
                    f"{what}={field!r} is the field of each item that has its {what}, and item {first + place} has "
                    f"{brief(value)} there"
                )
            places.setdefault(value, []).append(place)
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
