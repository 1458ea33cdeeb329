"""Packets: what is sent to MariaDB and MySQL together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from stanchion.core.portions import portions_within

T = TypeVar("T")

PACKET = 1_000_000
"""Number of characters sent together at most; a server accepts 16 MiB, escaped, by default."""


def packets(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in lists that fit into a packet."""
    return portions_within(PACKET, items, size_of)
