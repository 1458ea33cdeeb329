"""The reaper: returns the jobs of dead workers, and removes expired history."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from stanchion.context.upkeep import Host, Lag, Upkeep
from stanchion.context.upkeep_lease import UpkeepLease
from stanchion.errors import StanchionError
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.telemetry.rollups import Rollups

log = logging.getLogger("stanchion.worker")

MAINTAIN_EVERY = 10.0

LEASE_ROUNDS, LEASE_SECONDS_MIN = 3, 1.0
"""Rounds, and least seconds, after which another process does the upkeep of one that was not heard of."""

OWN_SECONDS_MAX = 60.0
"""Seconds between two checks of a process's own declarations, in a large fleet."""

ROLL_EVERY, ROLL_SHARE = 60.0, 200.0
"""Seconds between two readings of the figures that plots show later, and a multiple of the time that one takes."""


class ReaperHost(Host, Protocol):
    """The app as the reaper needs it."""

    @property
    def upkeep(self) -> Upkeep: ...

    def keep_declared(self) -> None:
        """Check from time to time that declared settings are still stored."""


class Reaper:
    """One thread that recovers lost jobs every `every` seconds, and maintains the store about every ten.

    Every worker and manager has one, and the upkeep lease selects the one that does this work; `fleet()` is their
    number. Jobs are recovered only while `steady()`: after an outage of the store, live workers need time to beat
    again. The clock is read before each recovery, so that an outage during the call does not make live workers look
    dead. If purging falls behind, the next round starts immediately.

    Each also checks what its own process needs: that declared settings and semaphores are still stored, and whether
    queues were partitioned. A larger fleet does so less often.
    """

    def __init__(
        self,
        context: ReaperHost,
        every: float,
        steady: Callable[[], bool],
        lost: Callable[[Sequence[JobRow]], None] | None = None,
        fleet: Callable[[], int] = lambda: 1,
    ) -> None:
        """`lost`: receives recovered jobs."""
        self._context, self._every, self._steady, self._lost, self._fleet = context, every, steady, lost, fleet
        self._lease = UpkeepLease(every, max(LEASE_ROUNDS * every, LEASE_SECONDS_MIN), estimates=True)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stanchion-reaper", daemon=True)
        self._lag, self._rollups = Lag(), Rollups()
        self._behind = False
        self._maintained_at = self._checked_at = self._roll_at = time.monotonic()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the call in progress; it lets the lease go."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self.pause()):
            self.round()
        try:
            self._lease.let_go(self._context.store)
        except Exception as error:
            log.debug("the lease of the upkeep ends by itself: %s: %s", type(error).__name__, error)

    def round(self) -> None:
        """Do due work; the thread calls it after each pause."""
        try:
            self._check_own()
            self._keep_up()
        except Exception as error:
            self._behind = False
            if not self._stopping.is_set():
                log.warning("maintaining the store failed: %s: %s", type(error).__name__, error)

    def pause(self) -> float:
        """Return the seconds until the next round, or until the next check of another process's lease."""
        if self._behind:
            return 0.0
        pause = self._every * random.uniform(0.8, 1.2)  # noqa: S311 - spreading load
        return pause if self._lease.is_held else min(pause, self._lease.look_in(self._fleet()) or pause)

    def _check_own(self) -> None:
        """Check what this process declares and knows, in turn with the others of the fleet."""
        every = min(OWN_SECONDS_MAX, MAINTAIN_EVERY * max(1.0, self._fleet() / 2))
        if time.monotonic() - self._checked_at >= every:
            self._checked_at = time.monotonic()
            self._context.store_semaphores()
            self._context.keep_declared()
            self._context.notice_partitions()

    def _keep_up(self) -> None:
        """Do the due shared upkeep, if this process has the lease, or gets it."""
        if self._lease.look_in(self._fleet()) > 0:
            return
        store = self._context.store
        as_of = self._lease.take(store, steady=self._steady())
        if as_of is None:
            self._behind = False
            return
        self._context.upkeep.recover(
            store, as_of if self._steady() else None, lambda: not self._stopping.is_set(), self._lost
        )
        if self._behind or time.monotonic() - self._maintained_at >= MAINTAIN_EVERY:
            self._maintained_at = time.monotonic()
            left = store.maintain()
            self._lag.warn(left)
            self._behind = bool(left)
        if time.monotonic() >= self._roll_at:
            self._roll_at = time.monotonic() + _roll(self._rollups, store)


def _roll(rollups: Rollups, store: Store) -> float:
    """Keep the figures of this minute for plots; return the seconds until the next time."""
    began = time.monotonic()
    try:
        rollups.take(store)
    except StanchionError as error:  # as where a token is limited to some queues
        log.debug("the figures of this minute are not kept: %s", error)
    return max(ROLL_EVERY, ROLL_SHARE * (time.monotonic() - began))
