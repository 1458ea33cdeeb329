"""Who holds a job still: the rules for leases and for heartbeats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.records.workers import Beat, WorkerRow

MISSED_BEATS = 3
"""A worker that missed this many of its heartbeats is dead."""

LATE_BEATS = 2
"""One that missed this many polls no more, as far as the others are concerned."""


def alive(worker: WorkerRow, now: int) -> bool:
    """Tell whether a worker was heard of within its three heartbeats."""
    return worker.last_seen_at + _patience(worker) > now


def shares(worker: WorkerRow, now: int) -> bool:
    """Tell whether a worker takes part in the polling: it claims, and was heard of within its two heartbeats."""
    late = worker.last_seen_at + LATE_BEATS * int(worker.heartbeat * SECOND) <= now
    return worker.state == "running" and not late


def least_sharing(queues: Collection[str], sharing: Iterable[tuple[Collection[str], int]]) -> int:
    """Return among how many workers the polling of some queues is shared: the least over these queues.

    `sharing` are sets of queues, and the number of workers that work for each.
    """
    totals = dict.fromkeys(queues, 0)
    for names, workers in sharing:
        for queue in totals.keys() & set(names):
            totals[queue] += workers
    return max(1, min(totals.values(), default=1))


def beat_of(beating: Iterable[WorkerRow], known: Collection[WorkerRow], cancelled: list[str], now: int) -> Beat:
    """Return the answer to a heartbeat of some of the known workers."""
    sharing = ((worker.queues, 1) for worker in known if shares(worker, now))
    queues = {queue for worker in beating for queue in worker.queues}
    return Beat(sum(alive(worker, now) for worker in known), cancelled, least_sharing(queues, sharing))


def is_lost(row: JobRow, workers: Mapping[str, WorkerRow], now: int) -> bool:
    """Tell whether the holder of a running job is gone.

    A job whose worker has no row is lost once each live worker would have written its row anew since the
    job started. With no live worker there is nothing to judge by.
    """
    if row.state != JobState.RUNNING:
        return False
    if row.worker is None:
        return row.lease_until is not None and row.lease_until <= now
    known = workers.get(row.worker)
    if known is not None:
        return not alive(known, now)
    longest = max((_patience(worker) for worker in workers.values() if alive(worker, now)), default=None)
    return longest is not None and (row.started_at or 0) + longest <= now


def _patience(worker: WorkerRow) -> int:
    return MISSED_BEATS * int(worker.heartbeat * SECOND)
