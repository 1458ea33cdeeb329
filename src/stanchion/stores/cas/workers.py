"""Recovery of jobs whose holders are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules import set_back
from stanchion.stores.rules.leases.liveness import is_lost
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay, default_delay, had_begun
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules
from stanchion.stores.rules.set_back import is_overdue

_RECOVER_JOBS_MAX = 500


class WorkerRows(Protocol):
    """Primitives on the workers of a store and the jobs they hold."""

    def known_workers(self) -> dict[str, WorkerRow]:
        """Return all workers that have a row, by id."""

    def seen_now(self, workers: Sequence[WorkerRow]) -> None:
        """Record a heartbeat of these workers, in the same state."""

    def leased(self, now: int) -> Iterable[str]:
        """Return the ids of running jobs whose lease ends after this time, or that began after it.

        Up to LEASES_SEARCHED_MAX.
        """

    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> Iterable[str]:
        """Return the ids of running jobs whose holder may be gone; false positives are harmless."""


PastLocks = Callable[[Sequence[str], Callable[[Sequence[str]], list[JobRow]]], list[JobRow]]


class LostJobs:
    """Returns jobs with an expired lease or a dead worker to their queues."""

    def __init__(
        self,
        loop: JobLoop,
        rows: WorkerRows,
        recover_outbox: Callable[[], None],
        values: Values | None = None,
        past_locks: PastLocks = lambda ids, free: free(ids),
    ) -> None:
        """`values`: where processes share the first search for leases from the future; None: each searches separately.

        `past_locks`: frees jobs with a function, and leaves out jobs that a transaction has locked.
        """
        self._loop, self._rows, self._recover_outbox = loop, rows, recover_outbox
        self._past_locks = past_locks
        self.delay: LostLeaseDelay = default_delay
        self._watch = set_back.Watch() if values is None else set_back.Watch(LooksForLeases(values).mine)

    def recover(self, limit: int = _RECOVER_JOBS_MAX, as_of: int | None = None) -> list[JobRow]:
        """Return lost jobs to their queues, and return their new state; if there are none, run outbox recovery."""
        freed = self._free_lost(limit, as_of) if limit else []
        if not freed:
            self._recover_outbox()
        return freed

    def _free_lost(self, limit: int, as_of: int | None) -> list[JobRow]:
        # Read the clock, then the workers, then the jobs. However long that takes, no worker is judged by an outdated
        # heartbeat, and no job by a list that predates its worker.
        if as_of is None:
            as_of = self._loop.jobs.now()
        workers = self._rows.known_workers()
        if self._watch.set_back(as_of) or set_back.seen_now(workers.values(), as_of):
            self._bring_back(workers)
        suspects = list(self._rows.suspects(workers, as_of, limit))[:limit]
        return self._past_locks(suspects, lambda ids: self.free(ids, workers, as_of)) if suspects else []

    def _bring_back(self, workers: dict[str, WorkerRow]) -> None:
        """Rewrite times from the future: heartbeats and leases from before the clock was set back."""
        now = self._loop.jobs.now()
        ahead = set_back.seen_now(workers.values(), now)
        if ahead:
            self._rows.seen_now(ahead)
            workers |= {worker.id: worker for worker in ahead}

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[None]:
            return Decision(None, None if row is None else set_back.started_now(row, facts.now))

        for ids in chunks(self._rows.leased(now)):
            self._loop.decide_each(ids, decide)

    def free(self, ids: Sequence[str], workers: Mapping[str, WorkerRow], as_of: int | None = None) -> list[JobRow]:
        """Take back the jobs that were lost at this time (None: now), and return them as they are now."""

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[JobRow | None]:
            if row is None or not is_lost(row, workers, facts.now if as_of is None else as_of):
                return Decision(None)
            begun = had_begun(row, workers.get(row.worker or ""))
            settings = facts.settings[row.queue]
            step = outcome_rules.lease_lost(row, settings, facts.now, begun=begun, delay=self.delay)
            return Decision(step.row, step.row, step.counted)

        return [row for row in self._loop.decide_each(ids, decide) if row is not None]


KIND: Final = "clock"
NAME: Final = "leases"

RECENT: Final = 30 * SECOND
"""Microseconds that another process's search is enough; an earlier lease lasts longer by that at most."""


class Values(Protocol):
    """The verbs of a store for small texts."""

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]: ...

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool: ...


class LooksForLeases:
    """Decides which of several starting processes searches for leases from before the clock was set back.

    A process can't know whether the clock was set back before its start, and a lease does not show it either. The
    search reads up to LEASES_SEARCHED_MAX jobs. So the time of the last one is stored: while it is recent, and not from
    the future, another process has searched since, or the clock was set back by less than RECENT.
    """

    def __init__(self, values: Values) -> None:
        self._values = values

    def mine(self, now: int) -> bool:
        """Return True if this process should look: none has done so lately, and none begins to at this moment."""
        found = next(iter(self._values.values(KIND, [NAME])), None)
        if found is not None and found.text.isdecimal() and not is_overdue(int(found.text), now, RECENT):
            return False
        return self._values.compare_and_set(KIND, NAME, str(now), 0 if found is None else found.version)
