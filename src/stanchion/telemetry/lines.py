"""The lines that a worker logs of its jobs: one for each at first, sums under load."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from stanchion.core.names.partition_names import logical_name
from stanchion.core.text.durations import spelled
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Outcome
from stanchion.telemetry.counts import name_of

log = logging.getLogger("stanchion.jobs")

LINES_A_SECOND: Final = 20
"""Number of jobs that get separate lines within one second."""

SUM_SECONDS: Final = 10.0
"""Seconds that one line about all other jobs covers, at least."""

_KEPT: Final = 100_000
"""Maximum attempts whose outcomes are not stored yet; beyond it the run time is not reported."""

TASKS: Final = 5
"""Tasks that a line about many jobs names, most jobs first."""


class JobLines:
    """One worker's log lines on the ends of its attempts at INFO, once they are stored. Any thread may call.

        done greet 0198c6be-… in 3 ms
        4,120 more jobs in 10 s: done greet 4,100 (3 ms each), moved load 20 (1.2 s each)

    A failure has a separate line, at WARNING, logged where it is stored.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ran: dict[tuple[str, str], tuple[JobRow, float]] = {}
        self._lock = threading.Lock()
        self._second, self._lines = 0, 0
        self._since: float | None = None
        self._sums: dict[tuple[str, str], tuple[int, float]] = {}

    @staticmethod
    def wanted() -> bool:
        """Return whether such lines are logged at all, by the level of the logger `stanchion.jobs`."""
        return log.isEnabledFor(logging.INFO)

    def ended(self, row: JobRow, seconds: float, _outcome: Outcome | None) -> None:
        """Remember how long an attempt ran, until its end is stored."""
        if len(self._ran) < _KEPT:
            self._ran[row.id, logical_name(row.queue)] = row, seconds

    def stored(self, job_id: str, queue: str, outcome: Outcome | None, *, failed: bool) -> None:
        """Say how an attempt has ended in a queue; `failed`: it has been said already."""
        found = self._ran.pop((job_id, logical_name(queue)), None)
        if failed or found is None:
            return
        row, seconds = found
        with self._lock:
            now = self._clock()
            if int(now) != self._second:
                self._second, self._lines = int(now), 0
            self._lines += 1
            alone = self._lines <= LINES_A_SECOND and self._since is None
            if not alone:
                self._add(name_of(outcome), row.task or "payload", seconds, now)
        if alone:
            self._say(row, name_of(outcome), seconds)
        else:
            self.sum_up(SUM_SECONDS)

    def sum_up(self, after: float = 0.0) -> None:
        """Log one line about all that have had none, unless the first of them ended less than `after` seconds ago."""
        with self._lock:
            now = self._clock()
            if self._since is None or now - self._since < after:
                return
            since, self._since = self._since, None
            sums, self._sums = self._sums, {}
        total = sum(count for count, _ in sums.values())
        most = sorted(sums.items(), key=lambda one: -one[1][0])
        parts = [f"{word} {task} {count:,} ({_took(all_ / count)} each)" for (word, task), (count, all_) in most]
        more = [f"{len(parts) - TASKS} more tasks"] if len(parts) > TASKS else []
        counts = {f"{word} {task}": count for (word, task), (count, _) in most}
        text = ", ".join(parts[:TASKS] + more)
        log.info("%s more jobs in %s: %s", f"{total:,}", _took(now - since), text, extra={"jobs": counts})

    def _add(self, word: str, task: str, seconds: float, now: float) -> None:
        if self._since is None:
            self._since = now
        count, all_ = self._sums.get((word, task), (0, 0.0))
        self._sums[word, task] = count + 1, all_ + seconds

    def _say(self, row: JobRow, word: str, seconds: float) -> None:
        queue = logical_name(row.queue)
        told = {"job": row.id, "queue": queue, "task": row.task, "outcome": word, "attempt": row.attempts}
        extra = {**told, "seconds": round(seconds, 6)}
        log.info("%s %s %s in %s", word, row.task or f"a payload of {queue}", row.id, _took(seconds), extra=extra)


def _took(seconds: float) -> str:
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return spelled(seconds)
