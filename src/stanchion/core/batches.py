"""Batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches_within(most: int, items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in lists whose sizes add up to at most `most`; a larger item has a separate list."""
    batch: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and total + size > most:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
