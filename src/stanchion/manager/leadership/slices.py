"""The slices of a queue: ranges of its lanes, each owned by one manager at a time."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.context.shard import MAX_LANES
from stanchion.core.names.fitted_names import fitted
from stanchion.stores.records.jobs import UNLANED

SLICES_MAX = 64
"""Slices of a queue at most."""


class Slice(NamedTuple):
    """A slice of a queue; `lanes`: first and last one."""

    queue: str
    number: int
    lanes: tuple[int, int]

    @property
    def name(self) -> str:
        """The name of its value."""
        return value_name(self.queue, self.number)


def slices_of(queue: str, lanes: int) -> list[Slice]:
    """Return the slices of a queue with this number of lanes, 64 or one for each lane.

    Slice n of S begins with lane `floor(n * lanes / S)`. The first one also has the jobs without a lane, the last one
    the jobs in lanes that the queue had before.
    """
    count = slice_count(lanes)
    first = [number * lanes // count for number in range(count)]
    first[0] = UNLANED
    last = [*(lane - 1 for lane in first[1:]), MAX_LANES - 1]
    return [Slice(queue, number, (first[number], last[number])) for number in range(count)]


def slice_count(lanes: int) -> int:
    """Return the number of slices of a queue."""
    return min(SLICES_MAX, max(1, lanes))


def value_name(queue: str, number: int) -> str:
    """Return the name of a slice's value: `queue/number`, fitted."""
    return fitted(queue, f"/{number}")
