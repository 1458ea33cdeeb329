"""History that is kept for less than `history_ttl`: of an outcome with a shorter time, or beyond `history_max`.

Upkeep deletes it a portion at a time. To find the old jobs of an outcome it walks the ends of all finished jobs of the
queue, in order, from where it was last, so jobs of other outcomes that stay are read once and no index by outcome is
needed. Late commits and copied jobs may have ended before that place: the walk starts over once in an hour.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.upkeep import Budget, purge_each

_WALK_AGAIN_SECONDS = 3600.0
_COUNTED_PER_SECOND = 20_000
"""Finished jobs that upkeep counts per second and queue, so that a large `history_max` is checked less often."""
_UNCOUNTED_MAX = 10_000
"""A `history_max` up to which the jobs are counted in every round."""


class Ends(Protocol):
    """The operations on finished jobs that trimming requires of a store, by their ends in microseconds."""

    @abstractmethod
    def now(self) -> int: ...

    @abstractmethod
    def after_portion(self, queue: str, after: int, before: int, portion: int) -> int | None:
        """Return the end of the job behind the first portion of those from `after` to `before`; None: no more."""

    @abstractmethod
    def beyond(self, queue: str, newest: int, portion: int) -> Sequence[int]:
        """Return up to a portion of the ends that follow so many of the newest ones, the latest first."""

    @abstractmethod
    def delete_of(self, queue: str, outcome: str, after: int, before: int, portion: int) -> int:
        """Delete up to a portion of the jobs of an outcome with these ends; return their number."""

    @abstractmethod
    def oldest(self, queue: str, count: int) -> Sequence[str]:
        """Return the ids of so many of the oldest jobs, in an order that is the same for all processes."""

    @abstractmethod
    def delete(self, queue: str, ids: Sequence[str], before: int) -> object:
        """Delete these jobs, except ones that have ended after `before`."""


class Trimming:
    """Deletes finished jobs before `history_ttl`, in portions."""

    def __init__(self, ends: Ends, portion: int) -> None:
        self._ends, self._portion = ends, portion
        self._walked: dict[tuple[str, str], int] = {}
        """Queues and outcomes, and the end up to which the old jobs were deleted; cleared at `_walk_again_at`."""
        self._counted: dict[tuple[str, int], float] = {}
        """Queues with a large `history_max`, and when their jobs are counted again."""
        self._walk_again_at = 0.0

    def trim_each(self, queues: Iterable[QueueSettings], budget: Budget) -> list[str]:
        """Delete what these queues keep for less than `history_ttl`; return those left when time ran out."""
        if time.monotonic() >= self._walk_again_at:
            self._walked, self._walk_again_at = {}, time.monotonic() + _WALK_AGAIN_SECONDS
        trimmed = {one.name: one for one in queues if one.trims}
        return purge_each(lambda queue: self._trim(trimmed[queue]), sorted(trimmed), self._portion, budget)

    def _trim(self, settings: QueueSettings) -> int:
        """Delete a portion for each reason; return its size if there may be more."""
        left = [self._walk(settings.name, outcome, ttl) for outcome, ttl in settings.shorter_ttls.items()]
        if settings.history_max is not None:
            left.append(self._shorten(settings.name, settings.history_max))
        return self._portion if any(left) else 0

    def _walk(self, queue: str, outcome: str, ttl: float) -> bool:
        """Delete the old jobs of an outcome in the next portion of a queue's history; return whether more follows."""
        after, before = self._walked.get((queue, outcome), 0), self._ends.now() - int(ttl * SECOND)
        following = self._ends.after_portion(queue, after, before, self._portion)
        upto = before if following is None else following
        if self._ends.delete_of(queue, outcome, after, upto, self._portion) < self._portion:
            self._walked[queue, outcome] = upto + 1
            return following is not None
        return True

    def _shorten(self, queue: str, newest: int) -> bool:
        """Delete a portion of the oldest jobs beyond the newest ones; return whether there are more."""
        if newest > _UNCOUNTED_MAX:
            if time.monotonic() < self._counted.get((queue, newest), 0.0):
                return False
            self._counted[queue, newest] = time.monotonic() + newest / _COUNTED_PER_SECOND
        beyond = self._ends.beyond(queue, newest, self._portion)
        if beyond:
            # Counted once more behind: another process may have deleted some of them before the oldest were read.
            oldest = self._ends.oldest(queue, len(beyond))
            if still := self._ends.beyond(queue, newest, len(beyond)):
                self._ends.delete(queue, oldest[: len(still)], beyond[0])
        if len(beyond) == self._portion:
            self._counted.pop((queue, newest), None)
            return True
        return False
