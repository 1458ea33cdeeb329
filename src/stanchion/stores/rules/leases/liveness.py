"""Whether a job is still held: the rules for leases and heartbeats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.workers import HOLDER, Beat, LaneRange, WorkerRow

MISSED_BEATS = 3
"""Missed heartbeats after which a worker is dead."""

LATE_BEATS = 2
"""Missed heartbeats after which other workers stop counting on a worker's polling."""


def alive(worker: WorkerRow, now: int) -> bool:
    """Return True if a worker's last heartbeat is recent enough."""
    return worker.last_seen_at + _silence_limit(worker) > now


def shares(worker: WorkerRow, now: int) -> bool:
    """Return True if a worker shares the polling: it claims, and its last heartbeat is recent enough."""
    late = worker.last_seen_at + LATE_BEATS * int(worker.heartbeat * SECOND) <= now
    return worker.state == "running" and not late


def least_sharing(workers: Iterable[WorkerRow], sharing: Iterable[tuple[WorkerRow, int]]) -> int:
    """Return how many workers share the polling of what some workers poll: the least over their queues.

    `sharing`: workers, each with the number of workers that serve the same queues and lanes. Only workers that serve
    all lanes of a worker share its polling of a queue with lanes.
    """
    totals: dict[str, dict[LaneRange, int]] = {}
    for lanes in (lanes for worker in workers for lanes in lanes_of(worker)):
        totals.setdefault(lanes.queue, {})[lanes] = 0
    for worker, number in sharing:
        for served in lanes_of(worker):
            of_queue = totals.get(served.queue, {})
            for lanes in of_queue:
                if served.first <= lanes.first and lanes.last <= served.last:
                    of_queue[lanes] += number
    return max(1, min((least for of_queue in totals.values() for least in of_queue.values()), default=1))


def lanes_of(worker: WorkerRow) -> list[LaneRange]:
    """Return the lanes that a worker serves, of each of its queues."""
    ranges = {lanes.queue: lanes for lanes in worker.lanes}
    return [ranges.get(queue) or LaneRange(queue, UNLANED, _LAST) for queue in worker.queues]


_LAST = 1 << 30


def beat_of(beating: Iterable[WorkerRow], known: Collection[WorkerRow], cancelled: list[str], now: int) -> Beat:
    """Return the answer to a heartbeat of some of the known workers."""
    sharing = [(worker, 1) for worker in known if shares(worker, now)]
    return Beat(sum(alive(worker, now) for worker in known), cancelled, least_sharing(beating, sharing))


def is_lost(row: JobRow, workers: Mapping[str, WorkerRow], now: int) -> bool:
    """Return True if the holder of a running job is gone. A lease decides alone, for any holder.

    A job whose worker has no row is lost once each live worker would have rewritten its own row since the job started.
    Without a live worker nothing can be inferred.
    """
    if row.state != JobState.RUNNING:
        return False
    if row.lease_until is not None:
        return row.lease_until <= now
    if row.worker is None:
        return False
    known = workers.get(row.worker)
    if known is not None:
        return not alive(known, now)
    orphaned = orphaned_since(workers.values(), now)
    return orphaned is not None and (row.started_at or 0) <= orphaned


def orphaned_since(workers: Iterable[WorkerRow], now: int) -> int | None:
    """Return when a running job whose worker has no row must have started to be lost; None without a live worker."""
    longest = max((_silence_limit(worker) for worker in workers if alive(worker, now)), default=None)
    return None if longest is None else now - longest


class Leased(NamedTuple):
    """Running jobs of a queue that are held under leases by the name `holder`: their number, first and last start."""

    holder: str
    queue: str
    jobs: int
    first_start: int
    last_start: int


def holders_of(leased: Iterable[Leased]) -> list[WorkerRow]:
    """Return the holders of leases in the form of workers, by name. `last_seen_at`: when one last reserved a job."""
    by_name: dict[str, list[Leased]] = {}
    for one in leased:
        by_name.setdefault(one.holder, []).append(one)
    return [
        WorkerRow(
            *(name, "", 0, tuple(sorted({one.queue for one in held})), 0, 0.0, HOLDER),
            started_at=min(one.first_start for one in held),
            last_seen_at=max(one.last_start for one in held),
            running=sum(one.jobs for one in held),
        )
        for name, held in sorted(by_name.items())
    ]


def _silence_limit(worker: WorkerRow) -> int:
    return MISSED_BEATS * int(worker.heartbeat * SECOND)
