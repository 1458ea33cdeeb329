"""Recovery of lost jobs and of the outbox past locks of transactions: a write waits while the transaction is open."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from stanchion.errors import StoreUnavailable
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import JobRow, JobState

SECONDS = 0.5
"""Seconds that a write of some jobs may take before they are tried in halves."""
_LOCKED_TRIED_MAX = 2
"""Jobs found locked before that one call tries again."""

ITEM_SECONDS = 2.0
"""Seconds for an item alone that has waited, once in a call: it may have much to do."""
_WAITED_MAX = 1000

T = TypeVar("T", bound=Hashable)

Free = Callable[[Sequence[str]], list[JobRow]]


class PastLocks:
    """Frees unlocked jobs, and remembers locked ones, so that they cost the next calls little."""

    def __init__(self, server: Access, jobs: Jobs) -> None:
        self._server, self._jobs = server, jobs
        self._locked: frozenset[str] = frozenset()

    def free(self, ids: Sequence[str], free: Free) -> list[JobRow]:
        """Free jobs by `free`, at first all together, and return them as they are now; leave out those locked.

        It begins nothing after the time of a call: the next round continues.
        """
        self._locked = self._locked.intersection(ids)  # replaced, not changed: several threads may call
        known = random.sample(sorted(self._locked), min(_LOCKED_TRIED_MAX, len(self._locked)))
        groups = [[one] for one in known] + [[one for one in ids if one not in self._locked]]
        rows, end = list[JobRow](), time.monotonic() + calls.CALL_SECONDS
        while groups and time.monotonic() < end:
            group = groups.pop()
            freed, left = self._tried(group, free) if group else ([], [])
            rows += freed
            if len(left) == 1:
                self._locked = self._locked.union(left)
            elif left:
                groups += [left[len(left) // 2 :], left[: len(left) // 2]]
            self._locked = self._locked.difference(row.id for row in freed)
        return rows

    def _tried(self, group: Sequence[str], free: Free) -> tuple[list[JobRow], list[str]]:
        """Free jobs; return the freed ones, and the ids of jobs that still run if it took too long."""
        with self._jobs.noted() as stamps:
            try:
                with self._server.outside.hurried(SECONDS):
                    return free(group), []
            except StoreUnavailable:
                rows = [one.row for one in self._jobs.read(group)[1].values()]  # fails, too, without a server
        # The write may have freed some of them before it met the first one locked. Other processes free jobs, too.
        freed = self._jobs.written_by(stamps, group)
        return [row for row in rows if row.id in freed], [row.id for row in rows if row.state == JobState.RUNNING]


class WorkPastLocks:
    """Processes items, such as outbox entries and slots; items that have waited are processed last.

    An item waits for a job that it grants a slot or a result, and whose transaction may stay open for long.
    """

    def __init__(self, server: Access) -> None:
        self._server = server
        self._waited: frozenset[Hashable] = frozenset()

    def work(self, items: Sequence[T], work: Callable[[Sequence[T]], object]) -> None:
        """Process items, at first all together; leave out the ones that wait for a lock.

        It begins nothing after the time of a call: the next round continues.
        """
        waited = [one for one in items if one in self._waited]
        groups = [[one for one in items if one not in self._waited]]
        end = time.monotonic() + calls.CALL_SECONDS
        while groups and time.monotonic() < end:
            group = groups.pop()
            if group and not self._done(group, work, SECONDS):
                half = len(group) // 2
                groups += [part for part in (group[half:], group[:half]) if half]
                waited += [] if half else group
        self._waited = self._waited.difference(items).union(waited[:_WAITED_MAX])
        if waited:
            self._done([random.choice(waited)], work, ITEM_SECONDS)  # noqa: S311 - each in its turn

    def _done(self, group: Sequence[T], work: Callable[[Sequence[T]], object], seconds: float) -> bool:
        try:
            with self._server.outside.hurried(seconds):
                work(group)
        except StoreUnavailable:
            self._server.now()  # fails, too, without a server
            return False
        return True
