"""Buckets of times, and the times of a worker as a stored text.

The buckets are logarithmic as in DDSketch (Masson, Rim and Lee: "DDSketch: a fast and fully-mergeable quantile
sketch with relative-error guarantees", VLDB 2019), with fixed bounds: so sums over several workers are exact, and any
quantile of them is within ACCURACY of its value, as long as it is between FLOOR and the last bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import accumulate, zip_longest
from typing import Final

from stanchion.stores.records.workers import QueueTimes

ACCURACY: Final = 0.1
"""The relative error of a quantile."""

RATIO: Final = (1 + ACCURACY) / (1 - ACCURACY)
"""Of the bounds of two buckets."""

FLOOR: Final = 0.001
"""Upper bound of the first bucket in seconds."""

BUCKETS: Final = 121
"""The last one is of all times beyond the last bound, 272 days."""

BOUNDS: Final = tuple(FLOOR * RATIO**index for index in range(BUCKETS - 1))
"""Seconds. The bucket of a time is its place among them by `bisect_left`: a bound is part of its bucket."""

ENTRIES_MAX: Final = 60
"""Maximum number of queues and bands whose times a worker reports, the ones with most jobs."""


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the time, in seconds, that this share of the counted ones did not exceed; None without any."""
    total = sum(counts)
    if not total:
        return None
    rank = share * (total - 1)
    index = next(index for index, below in enumerate(accumulate(counts)) if below > rank)
    return FLOOR if index == 0 else 2 * BOUNDS[min(index, BUCKETS - 2)] / (RATIO + 1)


def added(one: Iterable[int], other: Iterable[int]) -> tuple[int, ...]:
    """Return the sums by bucket."""
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


def times_text(times: Iterable[QueueTimes]) -> str | None:
    """Return the times of a worker as JSON; None without any."""
    return json.dumps(list(times), separators=(",", ":"), ensure_ascii=False) if times else None


def times_in(text: str | bytes | None) -> tuple[QueueTimes, ...]:
    """Return the times in a stored text; none from a release that stores none."""
    stored = json.loads(text) if text else ()
    return tuple(QueueTimes(queue, band, tuple(delays), tuple(runs)) for queue, band, delays, runs in stored)
