"""Progress of running jobs: written at most once a second for each job, however often it is reported."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import LeaseLost, StoreUnavailable
from stanchion.stores.records.outcomes import Progress

if TYPE_CHECKING:
    from stanchion.stores.protocol import Store
    from stanchion.stores.records.jobs import JobState, Lease

log = logging.getLogger("stanchion")

EVERY: Final = 1.0
"""Seconds between two writes of the progress of one job."""


class HasStore(Protocol):
    """A context."""

    @property
    def store(self) -> Store: ...


class _Report:
    """Progress of one job as known here. `value`: reported and not written yet."""

    __slots__ = ("value", "writing", "written_at")

    def __init__(self) -> None:
        self.value: float | None = None
        self.written_at = -math.inf
        self.writing = False


class ProgressWriter:
    """Writes the progress of the jobs of one process.

    The first report of a job is written immediately, as is one made a second after the last write. A thread writes
    the others, all together once a second, so that they are seen within two; it ends when none is left. The last value
    is stored with the outcome.
    """

    def __init__(self, context: HasStore) -> None:
        self._context = context
        reset_after_fork(self)

    def begin(self) -> None:
        """Forget the jobs of the parent after a fork."""
        self._changed = threading.Condition()
        self._reports: dict[Lease, _Report] = {}
        self._running = False

    def report(self, lease: Lease, value: float) -> None:
        """Record the share done, now or within two seconds. Raises LeaseLost if a write finds it lost."""
        with self._changed:
            report = self._reports.setdefault(lease, _Report())
            report.value = value
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="stanchion-progress", daemon=True).start()
            if report.writing or time.monotonic() - report.written_at < EVERY:
                return
            report.writing = True
        if self._write({lease: report}):
            raise LeaseLost(lease.id)

    def take(self, leases: Iterable[Lease]) -> list[Progress]:
        """Return the unwritten progress of ending jobs, to be stored before their outcomes; forget these jobs."""
        if not self._reports:
            return []
        with self._changed:
            ended = [(lease, report) for lease in leases if (report := self._reports.pop(lease, None)) is not None]
            self._changed.wait_for(lambda: not any(report.writing for _, report in ended), EVERY)
        return [Progress(lease, report.value) for lease, report in ended if report.value is not None]

    def _write(self, reports: dict[Lease, _Report]) -> bool:
        """Write reports that this thread has marked as being written; return whether a lease is lost."""
        with self._changed:
            values = {lease: report.value or 0.0 for lease, report in reports.items()}
            for report in reports.values():
                report.value = None
        states: list[JobState | None] | None = None
        try:
            states = self._context.store.settle([Progress(lease, value) for lease, value in values.items()])
        finally:
            with self._changed:
                for place, (lease, report) in enumerate(reports.items()):
                    report.writing, report.written_at = False, time.monotonic()
                    if states is None:
                        report.value = values[lease] if report.value is None else report.value
                    elif states[place] is None:
                        self._reports.pop(lease, None)  # the next report is written immediately, and finds that again
                self._changed.notify_all()
        return None in states

    def _run(self) -> None:
        while True:
            time.sleep(EVERY)
            try:
                if not self._round():
                    return
            except StoreUnavailable as error:
                log.debug("progress is not written now: %s", error)
            except Exception:
                log.exception("progress could not be written")

    def _round(self) -> bool:
        """Write what waits; return False if the thread is needed no more."""
        with self._changed:
            old = time.monotonic() - EVERY
            for lease, report in list(self._reports.items()):
                if report.value is None and not report.writing and report.written_at <= old:
                    del self._reports[lease]  # its next report is written immediately
            if not self._reports:
                self._running = False
                return False
            waiting = {
                lease: report
                for lease, report in self._reports.items()
                if report.value is not None and not report.writing and report.written_at <= old
            }
            for report in waiting.values():
                report.writing = True
        if waiting:
            self._write(waiting)
        return True
