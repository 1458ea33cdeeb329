"""Splits work into groups, and chunks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

CHUNK = 500


def chunks(items: Iterable[T], most: int = CHUNK) -> Iterator[list[T]]:
    """Yield the items in lists of at most `most`, each read on demand."""
    rest = iter(items)
    while part := list(islice(rest, most)):
        yield part


def grouped(items: Iterable[T], name_of: Callable[[T], str]) -> dict[str, list[T]]:
    """Return the items by name, such as their queue's."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(name_of(item), []).append(item)
    return groups


class PastLocks(Protocol):
    """Applies a function to items, and leaves out items that wait for another transaction."""

    def __call__(self, items: Sequence[H], work: Callable[[Sequence[H]], object], /) -> None: ...


def at_once(items: Sequence[H], work: Callable[[Sequence[H]], object], /) -> None:
    """Work on all items together, in a store where no transaction locks a job."""
    work(items)
