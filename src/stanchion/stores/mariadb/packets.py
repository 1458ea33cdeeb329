"""Packets: statements sent to MariaDB and MySQL together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from stanchion.core.batches import batches_within

T = TypeVar("T")

PACKET = 1_000_000
"""Maximum bytes sent together: with the rest of the packet below 1 MiB, the least `max_allowed_packet` in use."""


def packets(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in lists that fit into a packet."""
    return batches_within(PACKET, items, size_of)


def size_of(sql: str | bytes | bytearray) -> int:
    """Return the bytes of a text as it is sent; the driver gives a statement with many rows as bytes."""
    return len(sql) if isinstance(sql, (bytes, bytearray)) or sql.isascii() else len(sql.encode(errors="replace"))


def arrays(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the rows in JSON arrays, each of which fits into a packet as a literal."""
    for some in packets((json.dumps(row, ensure_ascii=False) for row in rows), _literal_size):
        yield f"[{','.join(some)}]"


def _literal_size(text: str) -> int:
    return size_of(text) + sum(map(text.count, _ESCAPED)) + 1


_ESCAPED = ('"', "'", "\\")
"""The characters of JSON that take two bytes in a literal."""
