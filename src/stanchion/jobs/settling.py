"""Ends of reserved jobs: of many together, and from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stanchion.context.context import Context
from stanchion.core.checks import checked_id, several, shown
from stanchion.errors import InvalidInput, LeaseLost
from stanchion.jobs.batches import batches
from stanchion.jobs.job import JobState
from stanchion.jobs.reservation import Reservation, Settlement, settled


def settle(context: Context, settlements: Iterable[Settlement], tx: Any = None) -> list[JobState | None]:
    """End reserved jobs, up to `BATCH` by one call of the store; see `Stanchion.settle`."""
    several(settlements, "what is to be settled", "[job.committed(), other.rolled_back(error='no')]")
    wanted = list(settlements)
    for one in wanted:
        if not isinstance(one, Settlement):
            raise InvalidInput(f"settle takes what job.committed() or rolled_back() returns, not {shown(one)}")
    return [state for some in batches(wanted) for state in settled(context, some, tx)]


def reservation(context: Context, job_id: str, token: str) -> Reservation:
    """Return a reservation that was made elsewhere; see `Stanchion.reservation`."""
    row = context.store.fetch([checked_id(job_id)]).get(job_id)
    if row is None or row.state != JobState.RUNNING or row.token != token:
        raise LeaseLost(job_id)
    return Reservation(context, row)
