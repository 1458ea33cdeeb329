"""Looking after the store: what dead holders left goes back, what died half-way is finished, history is purged.

Workers do it all the time. Where none runs, `app.maintain()` and `stanchion maintain` do, and consumers take a share.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from stanchion.core.events import Listeners
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.rules.lost_leases import lost_leases
from stanchion.stores.rules.upkeep import Budget

log = logging.getLogger("stanchion.upkeep")

EVERY = 30.0
"""Seconds between two shares of all consumers together, at least, and between two of one process."""

SHARE_SECONDS = 1.0
"""Seconds of maintenance in one share."""

TAKEN_BACK_AT_ONCE = 500
"""Jobs of lost holders that one call takes back."""

WARN_EVERY = 300.0
"""Seconds between two warnings that the purge lags."""

_KIND, _NAME = "upkeep", "share"


class Maintained(NamedTuple):
    """What a round came to: jobs taken back, and the queues whose history still holds what it no longer keeps."""

    recovered: int
    behind: tuple[str, ...] = ()


class Lag:
    """Says in the log that the purge lags, now and then."""

    def __init__(self) -> None:
        self._quiet_until = 0.0

    def note(self, behind: list[str]) -> None:
        """Warn of these queues, unless that was done lately."""
        if behind and time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + WARN_EVERY
            log.warning(
                "the purge lags behind in %s: jobs end quicker than history forgets them. Run `stanchion maintain "
                "--every 1s` beside the workers, or keep no history there (history_ttl=0)",
                ", ".join(behind),
            )


def _ended_dead(row: JobRow) -> bool:
    """Tell a job that died, or became a dead letter, which no lost lease is held against, from one that waits again."""
    return row.state == JobState.DEAD or (row.finished_at is None and not lost_leases(row))


class Host(Protocol):
    """What upkeep needs of the app."""

    @property
    def store(self) -> Store: ...
    @property
    def events(self) -> Listeners: ...

    def store_semaphores(self) -> Store:
        """Store the semaphores that the code declares, where they are new; return the store."""

    def fire_dead(self, row: JobRow) -> None:
        """Fire the event for a job that died with its holder."""


class Upkeep:
    """The upkeep that this process does without a worker.

    A share is due every `every` seconds. It is done in a thread of its own: nobody waits for it, and no call fails with
    it. A versioned value in the store tells when the last one was: of many consumers one does it.
    """

    def __init__(self, host: Host, every: float = EVERY) -> None:
        self._host, self.every = host, every
        self._due: float | None = None
        self._lag = Lag()

    def round(self, seconds: float, as_of: int | None) -> Maintained:
        """Do all that is to be done, for about so many seconds; take back what was lost at `as_of` (None: nothing)."""
        store, budget = self._host.store_semaphores(), Budget(seconds)
        recovered = self.recover(store, as_of)
        behind = store.maintain(seconds)
        while behind and budget.left:
            behind = store.maintain(seconds)
        self._lag.note(behind)
        return Maintained(recovered, tuple(behind))

    def recover(self, store: Store, as_of: int | None, go_on: Callable[[], bool] = lambda: True) -> int:
        """Take back the jobs of holders that were gone at this time (None: none), and fire the event of dead ones;
        then complete what dead processes have left half done. Return how many jobs were taken back.
        """
        count, limit = 0, 0 if as_of is None else TAKEN_BACK_AT_ONCE
        while go_on() and (rows := store.recover(limit, as_of)):
            count += len(rows)
            log.warning("took back %d jobs from workers that are gone or leases that ran out", len(rows))
            if self._host.events.hears("dead"):
                for row in filter(_ended_dead, rows):
                    self._host.fire_dead(row)
        return count

    def nudge(self) -> None:
        """Begin a share if one is due. Called by all that wait for jobs or end one: takes no time, and never fails."""
        now = time.monotonic()
        if self._due is not None and now < self._due:
            return
        first = self._due is None
        self._due = now + self.every * random.uniform(0.5, 1.0)  # noqa: S311 - spreading load
        if not first or not self.every:
            try:
                threading.Thread(target=self._guarded_share, name="stanchion-upkeep", daemon=True).start()
            except RuntimeError:  # no thread can be started: the process is about to end
                log.debug("no thread for upkeep", exc_info=True)

    def _guarded_share(self) -> None:
        try:
            self.share()
        except Exception as error:
            log.debug("a share of the upkeep failed: %s: %s", type(error).__name__, error)

    def share(self) -> bool:
        """Do a share, if no other process has done one lately; return whether it did.

        It takes back what was lost already when the last share was done: after an outage of the store, all holders
        have had the time since then to show that they live.
        """
        store = self._host.store
        now = store.now()
        last = next(iter(store.values(_KIND, [_NAME])), None)
        if last is not None and abs(now - int(last.text)) < self.every * SECOND / 2:
            return False
        if not store.compare_and_set(_KIND, _NAME, str(now), 0 if last is None else last.version):
            return False
        self.recover(self._host.store_semaphores(), None if last is None else min(now, int(last.text)))
        self._lag.note(store.maintain(SHARE_SECONDS))
        return True
