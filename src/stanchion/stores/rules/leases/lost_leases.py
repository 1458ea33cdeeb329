"""Lost leases: which jobs are charged with one, and when a job is delivered alone.

When a worker dies, each of its jobs that had begun is charged with the loss, and the attempt counts. The other jobs get
their attempt back. Evidence of a start:

    reservation with a lease           it began at delivery; a popped job never began
    delivered as BEGUN                 the worker had a free thread for each of its jobs: they began immediately
    worker's row lists the job         it was running at the last heartbeat
    worker's row has no list           a consumer with heartbeats: its jobs began at delivery
    otherwise                          it may have begun since the last heartbeat

If a job kills its worker immediately, its start may thus be unknown. It is charged all the same, together with the
worker's other jobs, up to ALONE_FROM losses; no job dies of these. From then on the job waits between its attempts and
is delivered alone: the worker lets its other jobs end, records the start, and only then begins the job. The next loss
is therefore certainly caused by this job, and after MOST of them the job is dead. The job has the charge in its field
`lost_leases`, and all its losses in `lost_in_all`. Any other end of an attempt clears both, except a put-off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stanchion.stores.records.claims import BEGUN, NO_ATTEMPTS, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Outcome, Rollback
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.undeliverable import deliverable

ALONE_FROM = 2
"""Number of lost leases from which a job is delivered alone."""

MOST = 5
"""Lost leases after which a job is dead, if it is known to have begun."""

MOST_IN_ALL = 25
"""Lost leases after which a job is dead in any case: something kills its holders before it begins."""

LostLeaseDelay = Callable[[JobRow, int], float]
"""Returns the seconds of a job's n-th wait after lost leases."""


def default_delay(row: JobRow, number: int) -> float:  # noqa: ARG001 - some go by the job
    """Return the seconds of the default retry policy, without its jitter."""
    return float(number**4 + 5)


def is_alone(row: JobRow) -> bool:
    """Return True if a job must run without other jobs on its worker."""
    return row.lost_leases >= ALONE_FROM


def charged(row: JobRow, *, begun: bool) -> JobRow:
    """Return the job with one more lost lease."""
    more = begun or row.lost_leases < ALONE_FROM
    return row._replace(lost_leases=row.lost_leases + more, lost_in_all=row.lost_in_all + 1)


def is_fatal(row: JobRow, *, begun: bool) -> bool:
    """Return True if a job is dead after its lost leases."""
    return (begun and (row.attempts >= row.max_attempts or row.lost_leases >= MOST)) or row.lost_in_all >= MOST_IN_ALL


def forgiven(row: JobRow) -> JobRow:
    """Return the job without any charge, after an attempt has ended otherwise."""
    return row._replace(lost_leases=0, lost_in_all=0) if row.lost_in_all else row


def start_of(job_id: str, token: str) -> str:
    """Return a job's start in the form of the list in a worker's row."""
    return f"{job_id}:{token}"


def had_begun(row: JobRow, worker: WorkerRow | None) -> bool:
    """Return True if a job whose holder is gone is known to have begun; `worker`: the holder's row, if any."""
    if row.lease_until is not None or row.worker is None:
        return row.delivery not in NO_ATTEMPTS
    if row.delivery == BEGUN and not is_alone(row):
        return True
    return worker is not None and (worker.began is None or start_of(row.id, row.token or "") in worker.began)


def split_alone(claimed: Claimed) -> tuple[Claimed, Sequence[Outcome]]:
    """Split claimed jobs so that a job that must run alone is its worker's only one; return the rest as rollbacks.

    Jobs that can't be read are left out too: they are buried.
    """
    claimed, dead = deliverable(claimed)
    rows = claimed.rows
    if len(rows) < 2 or not any(map(is_alone, rows)):
        return claimed, dead
    kept: list[JobRow] = []
    back: list[Outcome] = [*dead]
    alone: dict[str | None, bool] = {}
    """Of each worker with a job: whether it takes no more."""
    for row in rows:
        if alone.get(row.worker) or (row.worker in alone and is_alone(row)):
            alone[row.worker] = True
            back.append(Rollback(row.lease, 0.0, refund=True))
        else:
            alone[row.worker] = is_alone(row)
            kept.append(row)
    return claimed._replace(rows=kept), back
