"""Shuffle shards, the lanes of a tenant by its name; and the lanes of jobs in none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import UNLANED

MAX_LANES = 1024

_MASK = (1 << 64) - 1


@lru_cache(maxsize=10_000)
def shuffle_shard(tenant: str, lanes: int, size: int) -> tuple[int, ...]:
    """Return the tenant's `size` lanes out of 0 to `lanes` - 1, in its order of preference."""
    draws = _splitmix64(_fnv1a(tenant.encode()))
    lane = list(range(lanes))
    for i in range(size):
        j = i + next(draws) % (lanes - i)
        lane[i], lane[j] = lane[j], lane[i]
    return tuple(lane[:size])


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


def shown_lane(lane: int) -> int | None:
    """Return a stored lane as the API shows it: None for jobs stored before the queue had lanes."""
    return None if lane == UNLANED else lane


def stored_range(lanes: Any) -> tuple[int, int]:
    """Return the first and the last lane. A range with lane 0 includes jobs in no lane."""
    if not isinstance(lanes, range) or lanes.step != 1 or not 0 <= lanes.start < lanes.stop <= MAX_LANES:
        raise InvalidInput(
            f"lanes must be a range without gaps within 0 to {MAX_LANES - 1}, such as range(0, 16), not {lanes!r}"
        )
    return (UNLANED if lanes.start == 0 else lanes.start), lanes.stop - 1


def range_in(text: str) -> range:
    """Return the range of lanes in a text: `0-15`, `16-` for all from 16 on, or `3`. Raises InvalidInput."""
    found = _RANGE.fullmatch(text)
    lanes = range(0)
    if found is not None:
        first, to, last = found.groups()
        lanes = range(int(first), int(last) + 1 if last else MAX_LANES if to else int(first) + 1)
    if not lanes or lanes.stop > MAX_LANES:
        raise InvalidInput(f"lanes must be a range within 0 to {MAX_LANES - 1}, such as 0-15, or 16-, not {text!r}")
    return lanes


_RANGE = re.compile(r"\s*(\d{1,4})\s*(?:(-)\s*(\d{1,4})?)?\s*", re.ASCII)
