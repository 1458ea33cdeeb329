"""Whether a worker still holds the jobs that it has claimed, judged by the age of its last answered heartbeat.

Managers wait for less than three heartbeats. How long they have not answered, only the receiver of their jobs knows.
"""

from __future__ import annotations

import logging
import math

from stanchion.core.boot_clock import boot_clock
from stanchion.stores.ports import BehindManagers
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.expiry import seconds_left
from stanchion.stores.rules.leases.liveness import MISSED_BEATS

log = logging.getLogger("stanchion.worker")


class Holding:
    """Judges by a clock that counts the sleep of the machine; `every`: seconds between heartbeats.

    A process that hangs, because it is stopped or its machine sleeps, misses its heartbeats, and others take its
    jobs. It may find out only when its threads continue, in any order: so a job may begin only if it was claimed after
    the first heartbeat of an unbroken series, and if the last one is recent.
    """

    def __init__(self, every: float) -> None:
        self._limit = MISSED_BEATS * every
        self._sent_at = -math.inf
        self._since = math.inf
        self.managers: BehindManagers | None = None
        """The store, if managers serve it."""

    def answered(self, sent_at: float) -> None:
        """Take in that the store has answered a heartbeat that was sent at that time of the boot clock."""
        now = boot_clock()
        silence = now - self._sent_at
        if silence >= self._limit:
            if self._since < now:
                log.warning(
                    "no heartbeat was answered for %.0f s: claimed jobs that have not begun go back to their queues",
                    silence,
                )
            self._since = now
        self._sent_at = sent_at  # last, as other threads read it first

    @property
    def stale(self) -> bool:
        """True if others may take the jobs of this worker: its next heartbeat comes too late for them."""
        return boot_clock() - self._sent_at >= self._limit

    def holds(self, claimed_at: float) -> bool:
        """Return whether a job is still held; `claimed_at`: when its claim was sent, by the boot clock."""
        return not self.stale and claimed_at >= self._since

    def may_begin(self, row: JobRow, claimed_at: float) -> bool:
        """Return whether a claimed job may begin: it has not expired, and no other worker and no manager has it."""
        if row.expires is not None and boot_clock() - claimed_at >= seconds_left(row):
            return False
        return self.holds(claimed_at) and (self.managers is None or self.managers.holds(row.lease))
