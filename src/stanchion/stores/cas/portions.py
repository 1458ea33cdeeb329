"""Work in portions of a bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

PORTION = 500


def portions(items: Iterable[T], most: int = PORTION) -> Iterator[list[T]]:
    """Yield the items in lists of at most so many, each read when it is asked for."""
    rest = iter(items)
    while part := list(islice(rest, most)):
        yield part
