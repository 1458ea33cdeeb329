"""Work that this code does not know: a call of an unknown task, or an item of an unknown station.

    claimed ──known──► run
       └──unknown──► put off, due again in 5 s, 10 s, 20 s, ..., 10 min; no attempt is counted, no failure
              └──unknown for `bury_after` seconds──► dead

While releases change, workers of the old one meet jobs of the new one. How often a job was put off is kept with it, in
its errors, so the delays grow wherever it is claimed next.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from stanchion.core.checks import seconds_of
from stanchion.core.retry import Retry
from stanchion.errors import StanchionError
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Bury, Rollback
from stanchion.stores.rules.error_entries import put_off_so_far

log = logging.getLogger("stanchion.worker")

A_DAY = 86_400.0

LONGEST_DELAY = 600.0

_DELAYS = Retry.exponential(5, max=LONGEST_DELAY)


class Unknown(StanchionError):
    """This code has no task of the job's name, or no station at its queue."""

    def __init__(self, name: str, message: str, advice: str) -> None:
        super().__init__(message)
        self.name, self.advice = name, advice


class UnknownWork:
    """What becomes of jobs whose work is unknown here. One per app.

    `bury_after`: the seconds after which such a job is dead; 0: at once.
    """

    def __init__(self, bury_after: float | timedelta = A_DAY) -> None:
        self.bury_after = seconds_of(bury_after, "bury_unknown_after")
        self._warned: set[str] = set()

    def outcome(self, row: JobRow, error: Unknown) -> Rollback | Bury:
        """Return the outcome of a claimed job whose work is unknown."""
        assert row.token is not None  # noqa: S101 - a claimed row has one
        times, since = put_off_so_far(row)
        now = (row.started_at or 0) / SECOND  # by the store's clock: it was claimed a moment ago
        waited = 0.0 if since is None else now - since
        if waited >= self.bury_after:
            after = f" for {waited:.0f} s" if waited else ""
            return Bury(row.id, row.token, f"UnknownTask: {error}{after}; {error.advice}, then retry")
        if error.name not in self._warned:
            self._warned.add(error.name)
            log.warning(
                "%s; its jobs are put off, and dead after %g s: %s (said once per name)",
                *(error, self.bury_after, error.advice),
            )
        delay = min(_DELAYS.delay(times + 1), LONGEST_DELAY)
        return Rollback(row.id, row.token, delay, f"UnknownTask: {error}", refund=True)
