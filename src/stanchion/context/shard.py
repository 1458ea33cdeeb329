"""Shuffle shards: the lanes of a tenant, chosen by its name; and lanes as the store keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import UNLANED

MAX_LANES = 1024

_MASK = (1 << 64) - 1


@lru_cache(maxsize=10_000)
def shuffle_shard(tenant: str, lanes: int, size: int) -> tuple[int, ...]:
    """Return the `size` lanes out of 0 to `lanes` - 1 that are this tenant's, in the order of its preference."""
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


def stored_lane(lane: int) -> int:
    """Return the stored number of a lane."""
    return lane + 1


def shown_lane(stored: int) -> int | None:
    """Return the number of a lane from its stored one; None for jobs that came before there were lanes."""
    return None if stored == UNLANED else stored - 1


def stored_range(lanes: Any) -> tuple[int, int]:
    """Return the first and the last stored lane; a range from lane 0 on has also the jobs that are in none."""
    if not isinstance(lanes, range) or lanes.step != 1 or not 0 <= lanes.start < lanes.stop <= MAX_LANES:
        raise InvalidInput(
            f"lanes must be a range without gaps within 0 to {MAX_LANES - 1}, such as range(0, 16), not {lanes!r}"
        )
    return (UNLANED if lanes.start == 0 else stored_lane(lanes.start)), stored_lane(lanes.stop - 1)
