"""Running a job alone: a job that has lost its lease twice may be the one that kills its workers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.leases.lost_leases import start_of
from stanchion.worker.running.runner import Runners

log = logging.getLogger("stanchion.worker")

DRAIN_SECONDS_MAX = 60.0
"""Seconds that the worker's other jobs get to finish. After that the job runs alongside them."""

ALONE_SECONDS_MAX = 60.0
"""Seconds a job runs alone before the worker claims others again."""

TICK = 0.01


class Alone:
    """Waits for all other jobs, records the start in the store, then runs the job. No job is claimed meanwhile.

    `outstanding()`: claimed jobs whose outcome is not stored; `record()` stores what `starting` says.
    """

    def __init__(self, runners: Runners, outstanding: Callable[[], int], record: Callable[[], object]) -> None:
        self._runners, self._outstanding, self._record = runners, outstanding, record
        self.starting: tuple[str, ...] = ()
        """The job that is about to start or runs, as listed in the worker's row."""

    def run(self, row: JobRow, claimed_at: float, stopping: threading.Event) -> bool:
        """Run the job until it finishes or ALONE_SECONDS_MAX pass. Returns False if it could not start.

        `claimed_at`: when its claim was sent, by the boot clock.
        """
        log.warning("job %s has lost its lease %d times: it runs alone", row.id, row.lost_leases)
        if not self._wait(stopping, DRAIN_SECONDS_MAX, until=1):
            if stopping.is_set():
                return False
            log.warning("job %s runs alongside %d long-running jobs", row.id, self._outstanding() - 1)
        self.starting = (start_of(row.id, row.token or ""),)
        try:
            self._record()
            self._runners.add([row], self._outstanding(), claimed_at)
            self._wait(stopping, ALONE_SECONDS_MAX, until=0)
        finally:
            self.starting = ()
        return True

    def _wait(self, stopping: threading.Event, seconds: float, until: int) -> bool:
        """Wait until at most `until` jobs are outstanding; False after `seconds`, or if the worker stops."""
        deadline = time.monotonic() + seconds
        while self._outstanding() > until:
            if stopping.wait(TICK) or time.monotonic() >= deadline:
                return False
        return True
