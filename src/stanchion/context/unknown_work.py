"""Unknown work: a call of a task, or an item of a station, that this code does not have.

    claimed ──known──► run
       └──unknown──► put off, due again in 5 s, 10 s, 20 s, ..., 10 min; counts as no attempt and no failure
              └──unknown for `bury_after` seconds──► dead

During a deployment, workers of the old release meet jobs of the new one. The number of delays is kept in the errors
of the job, so they grow whichever worker claims it next.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from stanchion.core.checks import seconds_of
from stanchion.core.retry import Retry, delay_anyway
from stanchion.errors import StanchionError
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Bury, Rollback

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
    """Decides the outcome of jobs whose work is unknown. One per app.

    `bury_after`: seconds after which such a job is dead; 0: immediately.
    """

    def __init__(self, bury_after: float | timedelta = A_DAY) -> None:
        self.bury_after = seconds_of(bury_after, "bury_unknown_after")
        self._warned: set[str] = set()

    def outcome(self, row: JobRow, error: Unknown) -> Rollback | Bury:
        """Return the outcome of a claimed job whose work is unknown."""
        from stanchion.stores.rules.lifecycle.error_entries import put_off_so_far

        times, since = put_off_so_far(row)
        now = (row.started_at or 0) / SECOND  # by the store's clock: it was just claimed
        waited = 0.0 if since is None else now - since
        if waited >= self.bury_after:
            after = f" for {waited:.0f} s" if waited else ""
            return Bury(row.lease, f"UnknownTask: {error}{after}; {error.advice}, then retry")
        if error.name not in self._warned:
            self._warned.add(error.name)
            log.warning(
                "%s; its jobs are put off, and dead after %g s: %s (logged once per name)",
                *(error, self.bury_after, error.advice),
            )
        delay = min(delay_anyway(_DELAYS, times + 1, error, row.task), LONGEST_DELAY)
        return Rollback(row.lease, delay, f"UnknownTask: {error}", refund=True)
