"""Splits work into groups, and portions of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

PORTION = 500


def portions(items: Iterable[T], most: int = PORTION) -> Iterator[list[T]]:
    """Yield the items in lists of at most `most`, each read on demand."""
    rest = iter(items)
    while part := list(islice(rest, most)):
        yield part


def grouped(items: Iterable[T], name_of: Callable[[T], str]) -> dict[str, list[T]]:
    """Return the items by name, such as that of their queue."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(name_of(item), []).append(item)
    return groups
