"""Upkeep of the store: taking back lost jobs, completing the outbox of dead processes, purging history.

One worker of the fleet does it all the time: see `upkeep_lease`. Without workers, `app.maintain()` and `stanchion
maintain` do it, and consumers do a share.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stanchion.context.steadiness import Steadiness
from stanchion.context.upkeep_lease import UpkeepLease
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.rules.upkeep import Budget

if TYPE_CHECKING:
    from stanchion.core.functions import Listeners
    from stanchion.stores.protocol import Store

log = logging.getLogger("stanchion.upkeep")

EVERY = 10.0
"""Maximum seconds between two shares of one process, while it consumes and no other process does the upkeep."""

SHARE_SECONDS = 1.0
"""Seconds of maintenance in one share."""

LEASE_SHARES = 1.5
"""Longest times between two shares after which another process does the upkeep of one that was not heard of."""

BEAT = 10.0
"""Seconds between heartbeats for which live holders get the time to beat again after an outage."""

TAKEN_BACK_AT_ONCE = 500
"""Lost jobs that one call takes back."""

WARN_EVERY = 300.0
"""Seconds between two warnings that purging falls behind."""


class Maintained(NamedTuple):
    """The result of a round: the number of jobs taken back, and the queues with expired history left."""

    recovered: int
    behind: tuple[str, ...] = ()


class Lag:
    """Logs that purging falls behind, at most every WARN_EVERY seconds."""

    def __init__(self) -> None:
        self._quiet_until = 0.0

    def warn(self, behind: list[str]) -> None:
        """Warn of these queues, unless there was a warning recently."""
        if behind and time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + WARN_EVERY
            log.warning(
                "purging falls behind in %s: jobs finish faster than expired history is deleted. Run `stanchion "
                "maintain --every 1s` in addition to the workers, or keep no history there (history_ttl=0)",
                ", ".join(behind),
            )


def _ended_dead(row: JobRow) -> bool:
    """Return whether a recovered job died or became a dead letter (which has no lost leases), instead of waiting."""
    return row.state == JobState.DEAD or (row.finished_at is None and not row.lost_in_all)


class Host(Protocol):
    """What upkeep needs of the app."""

    @property
    def store(self) -> Store: ...
    @property
    def events(self) -> Listeners: ...

    def store_semaphores(self) -> Store:
        """Store new declared semaphores; return the store."""

    def notice_partitions(self) -> Store:
        """Notice queues that other processes have partitioned since; return the store to use from now on."""

    def fire_dead(self, row: JobRow) -> None:
        """Fire the event for a job that died by a lost lease."""


class Upkeep:
    """The upkeep that this process does without a worker.

    A share is due every `every` seconds. It runs in a separate thread: no call waits for it or fails because of it.
    By the upkeep lease one of many consumers does it; while a worker has the lease, none.
    """

    def __init__(self, host: Host, every: float = EVERY) -> None:
        self._host, self.every = host, every
        self.steadiness = Steadiness(BEAT)
        """Whether the store has answered the calls of this process lately."""
        self._sharing = threading.Lock()
        self._due: float | None = None
        self._lag = Lag()

    @property
    def every(self) -> float:
        """Maximum seconds between two shares."""
        return self._every

    @every.setter
    def every(self, seconds: float) -> None:
        self._every, self._lease = seconds, UpkeepLease(seconds, LEASE_SHARES * seconds)

    def round(self, seconds: float, as_of: int | None) -> Maintained:
        """Do all upkeep, for about `seconds`; take back jobs that were lost at `as_of` (None: none)."""
        store, budget = self._host.store_semaphores(), Budget(seconds)
        recovered = self.recover(store, as_of)
        behind = store.maintain(seconds)
        while behind and budget.left:
            behind = store.maintain(seconds)
        self._lag.warn(behind)
        return Maintained(recovered, tuple(behind))

    def recover(
        self,
        store: Store,
        as_of: int | None,
        go_on: Callable[[], bool] = lambda: True,
        lost: Callable[[Sequence[JobRow]], None] | None = None,
    ) -> int:
        """Recover jobs that were lost at `as_of` (None: none) and fire the event for dead ones; then complete the
        outbox of dead processes. Return the number of recovered jobs. `lost`: receives them.
        """
        count, limit = 0, 0 if as_of is None else TAKEN_BACK_AT_ONCE
        while go_on() and (rows := store.recover(limit, as_of)):
            count += len(rows)
            if lost is not None:
                lost(rows)
            log.warning("recovered %d jobs of dead workers or expired leases", len(rows))
            if self._host.events.hears("dead"):
                for row in filter(_ended_dead, rows):
                    self._host.fire_dead(row)
        return count

    def nudge(self) -> None:
        """Start a share if one is due. Called whenever a job is waited for or settled: never blocks, never fails."""
        now = time.monotonic()
        if self._due is not None and now < self._due:
            return
        first = self._due is None
        self._due = now + self.every * random.uniform(0.5, 1.0)  # noqa: S311 - spreading load
        if not first or not self.every:
            try:
                threading.Thread(target=self._guarded_share, name="stanchion-upkeep", daemon=True).start()
            except RuntimeError:  # the process is exiting, so no thread can be started
                log.debug("no thread for upkeep", exc_info=True)

    def _guarded_share(self) -> None:
        try:
            if not self.share():  # another process does it: looking at it more rarely is enough
                self._due = time.monotonic() + self.every * random.uniform(1.0, 2.0)  # noqa: S311 - spreading load
        except Exception as error:
            log.debug("a share of the upkeep failed: %s: %s", type(error).__name__, error)

    def share(self) -> bool:
        """Do a share, unless another process does the upkeep; return whether it did.

        It takes back jobs that are lost by now if the store has answered this process for long enough without a gap.
        Else an outage may just have ended: no share follows the last one while the lease lasts, and it takes back those
        that were lost already at the last one. Live holders have had the time since then to prove that they are alive.
        """
        with self._sharing:
            store = self._host.notice_partitions()
            steady = self.steadiness.steady
            now = self._lease.take(store, steady=steady, renew=steady)
            if now is None:
                return False
            before = self._lease.before
            last = None if before is None else min(now, before.at)
            self.recover(self._host.store_semaphores(), now if steady else last)
            self._lag.warn(store.maintain(SHARE_SECONDS))
            return True
