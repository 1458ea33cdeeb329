"""Ends of reserved jobs: of many together, and from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from stanchion.context.context import Context
from stanchion.core.checks import brief, checked_id, several
from stanchion.errors import InvalidInput, LeaseLost
from stanchion.jobs.insert import batches
from stanchion.jobs.job import JobState
from stanchion.jobs.reservation import Reservation, Settlement, settled


def settle(context: Context, settlements: Iterable[Settlement], tx: object = None) -> list[JobState | None]:
    """End reserved jobs, up to `BATCH` by one call of the store; see `Stanchion.settle`."""
    several(settlements, "what is to be settled", "[job.committed(), other.rolled_back(error='no')]")
    wanted = list(settlements)
    for one in wanted:
        if not isinstance(one, Settlement):
            raise InvalidInput(f"settle takes what job.committed() or rolled_back() returns, not {brief(one)}")
    return [state for some in batches(wanted) for state in settled(context, some, tx)]


def reservations(context: Context, pairs: Iterable[tuple[str, str]]) -> list[Reservation | None]:
    """Return reservations that were made elsewhere, read `BATCH` at a time; see `Stanchion.reservations`."""
    wanted = [_pair(one) for one in several(pairs, "the reservations", "[(job.id, job.token)]")]
    found: list[Reservation | None] = []
    for some in batches(wanted):
        rows = context.store.fetch(list({job_id for job_id, _ in some}))
        for job_id, token in some:
            row = rows.get(job_id)
            held = row is not None and row.state == JobState.RUNNING and row.token == token
            found.append(Reservation(context, row) if held and row is not None else None)
    return found


def _pair(given: object) -> tuple[str, str]:
    if not isinstance(given, (tuple, list)) or len(given) != 2 or not isinstance(given[1], str):
        raise InvalidInput(
            f"a reservation is the id and the token of a job, such as (job.id, job.token), not {brief(given)}"
        )
    return checked_id(given[0]), given[1]


def reservation(context: Context, job_id: str, token: str) -> Reservation:
    """Return a reservation that was made elsewhere; see `Stanchion.reservation`."""
    row = context.store.fetch([checked_id(job_id)]).get(job_id)
    if row is None or row.state != JobState.RUNNING or row.token != token:
        raise LeaseLost(job_id)
    return Reservation(context, row)
