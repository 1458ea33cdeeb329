"""Stable hashes of texts, the same in every process, language and release; specified in `context.lanes`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

_MASK = (1 << 64) - 1


@lru_cache(maxsize=10_000)
def shuffle_shard(text: str, of: int, size: int) -> tuple[int, ...]:
    """Return `size` distinct numbers from 0 to `of` - 1, in the order of preference of a text."""
    draws = _splitmix64(_fnv1a(text.encode()))
    number = list(range(of))
    for i in range(size):
        j = i + next(draws) % (of - i)
        number[i], number[j] = number[j], number[i]
    return tuple(number[:size])


@lru_cache(maxsize=10_000)
def bucket(text: str, of: int) -> int:
    """Return the number from 0 to `of` - 1 that belongs to a text: the first of its shuffle shard."""
    return next(_splitmix64(_fnv1a(text.encode()))) % of


def _fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & _MASK
    return value


def _splitmix64(seed: int) -> Iterator[int]:
    while True:
        seed = seed + 0x9E3779B97F4A7C15 & _MASK
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        yield z ^ z >> 31
