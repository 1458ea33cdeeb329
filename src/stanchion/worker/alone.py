"""Running a job alone: one that lost its lease twice may be what kills its workers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.lost_leases import lost_leases, start_of
from stanchion.worker.runner import Runners

log = logging.getLogger("stanchion.worker")

LET_END = 60.0
"""Seconds that the other jobs of the worker get to end; then it runs beside those that go on."""

UNTROUBLED = 60.0
"""Seconds after which a job that has done no harm gets company again."""

TICK = 0.01


class Alone:
    """Lets all else end, has the store know that the job begins, and only then runs it; meanwhile nothing is claimed.

    `outstanding()`: claimed jobs whose end is not stored; `record()` tells the store what `starting` says.
    """

    def __init__(self, runners: Runners, outstanding: Callable[[], int], record: Callable[[], object]) -> None:
        self._runners, self._outstanding, self._record = runners, outstanding, record
        self.starting: tuple[str, ...] = ()
        """The job that is about to begin, or runs, as the worker's row lists it."""

    def run(self, row: JobRow, stopping: threading.Event) -> bool:
        """Run the job; return False where it could not begin. Returns when it has ended, or is let have company."""
        log.warning("job %s has lost its lease %d times: it runs alone", row.id, lost_leases(row))
        if not self._wait(stopping, LET_END, until=1):
            if stopping.is_set():
                return False
            log.warning("job %s runs beside %d jobs that go on for long", row.id, self._outstanding() - 1)
        self.starting = (start_of(row.id, row.token or ""),)
        try:
            self._record()
            self._runners.add([row], self._outstanding())
            self._wait(stopping, UNTROUBLED, until=0)
        finally:
            self.starting = ()
        return True

    def _wait(self, stopping: threading.Event, seconds: float, until: int) -> bool:
        """Wait until no more than so many jobs are outstanding; False when the time is over, or the worker stops."""
        deadline = time.monotonic() + seconds
        while self._outstanding() > until:
            if stopping.wait(TICK) or time.monotonic() >= deadline:
                return False
        return True
