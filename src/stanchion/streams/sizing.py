"""How many jobs make a batch of so many items: most jobs carry one, and chunks many.

A claim counts jobs. So its limit is estimated by the items of the jobs before, and what it reserved beyond the limit of
the batch is given back before the batch is read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from stanchion.stores.protocol import Store
from stanchion.stores.records.query import Condition, Query

PEEKED = 20
"""Ready jobs whose items are counted before the first claim."""


class Reserved(NamedTuple):
    """A reserved job, and the number of its items."""

    id: str
    items: int


QUICK_SECONDS = 10.0
"""A full batch that took longer makes the next one no larger."""


class Growth:
    """How large a batch may be: each full batch doubles the next one, up to `most` items; another one ends that.

    `most`: None if batches do not grow.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._times = 1

    def ended(self, seconds: float, *, full: bool) -> None:
        """Take a batch that has ended into account."""
        self._times = 1 if not full else self._times if seconds > QUICK_SECONDS else self._times * 2

    def of(self, limit: int) -> int:
        """Return the largest number of items of the batch that is claimed now. `limit`: of the first one."""
        return limit if self._most is None else min(limit * self._times, max(limit, self._most))

    def ahead(self, limit: int) -> int:
        """Return the same for the batch behind a full one, which has not ended yet."""
        return limit if self._most is None else min(self.of(limit) * 2, max(limit, self._most))


class Sizing:
    """The number of jobs to claim. `peek`: returns the items of some jobs that are claimed next."""

    def __init__(self, peek: Callable[[], Sequence[int]]) -> None:
        self._peek = peek
        self._items_per_job: float | None = None

    def jobs_for(self, items: int) -> int:
        """Return the number of jobs that carry about so many items, at least one; never more than `items`."""
        if not items:
            return 0
        if self._items_per_job is not None:
            return max(1, round(items / self._items_per_job))
        first = list(self._peek())
        fitting = bisect_right(list(accumulate(first)), items)
        if fitting < len(first):
            return max(1, fitting)
        return max(1, round(items * len(first) / sum(first))) if first else items

    def measure(self, items: Sequence[int]) -> None:
        """Take the numbers of items of a batch's jobs as the estimate for the next one."""
        if items:
            self._items_per_job = max(1.0, sum(items) / len(items))


def next_items(store: Store, queue: str) -> list[int]:
    """Return the numbers of items of the next jobs of a queue."""
    query = Query("live", (Condition("queue", "=", queue),), order="due", columns=("items",), limit=PEEKED)
    return [items_of(items) for (items,) in store.select(query).rows]


def items_of(items: int | None) -> int:
    """Return the number of items of a live job, which it says itself if it carries a chunk."""
    return 1 if items is None else items


def within(jobs: Sequence[Reserved], most: int) -> int:
    """Return the number of the first jobs that have at most so many items together; at least one job."""
    return max(1, bisect_right(list(accumulate(job.items for job in jobs)), most)) if jobs else 0


def ranges(jobs: Sequence[Reserved], count: int) -> list[tuple[str, str]]:
    """Divide ordered jobs into up to `count` ranges with about as many items; return the first and last id of each."""
    until = list(accumulate(job.items for job in jobs))
    middles = [2 * end - job.items for end, job in zip(until, jobs, strict=True)]
    cuts = (bisect_right(middles, 2 * (until[-1] * n // count)) for n in range(count)) if jobs else ()
    bounds = sorted({0, *cuts, len(jobs)})
    return [(jobs[first].id, jobs[behind - 1].id) for first, behind in pairwise(bounds)]
