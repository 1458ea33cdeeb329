"""Claims from an ordered queue: one job at a time, and no other before it has left the queue.

The row of the queue names its head: the job that was delivered, parked or deferred last. As long as the head is live
in the queue, whatever it waits for, a claim takes it or nothing. Once it is gone, the next job becomes the head. The
row is locked meanwhile, so that all claimers see one head.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Executable, String, literal_column, select

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import ORDER
from stanchion.stores.rules.slots import HOLDER_BOOST
from stanchion.stores.sql.claims.admission import Admission
from stanchion.stores.sql.claims.next_jobs import NextInLanes, ReservesNext, excludes_unlaned
from stanchion.stores.sql.claims.search import Search
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import jobs
from stanchion.stores.sql.rows.queue_row import QueueRow
from stanchion.stores.sql.rows.queues import QueueRows

_HEAD = select(jobs.c.state, jobs.c.run_at, jobs.c.lane, jobs.c.rank, jobs.c.waits_kind, jobs.c.order_key).where(
    jobs.c.id == param("head", jobs.c.id.type), jobs.c.queue == param("queue", String)
)
_LOCK_HEAD = (
    select(jobs.c.id)
    .where(jobs.c.id == param("head", jobs.c.id.type), jobs.c.queue == param("queue", String), jobs.c.state == QUEUED)
    .with_for_update(skip_locked=True)
)


def _held(dialect: Dialect, *where: ColumnElement[bool]) -> Executable:
    """Return the query for the first due job of a queue that holds a slot, locked."""
    return (
        select(jobs.c.id)
        .where(
            *(jobs.c.queue == param("queue", String), jobs.c.state == QUEUED, *where),
            *(jobs.c.slots_held > literal_column("0"), jobs.c.run_at <= dialect.now),
        )
        .limit(1)
        .with_for_update(skip_locked=True)
    )


def _of_key(dialect: Dialect) -> Executable:
    """Return the query for the job that holds an order key between two attempts."""
    return _held(dialect, jobs.c.order_key == param("order_key", String))


def _granted(dialect: Dialect) -> Executable:
    """Return the query for a job that was granted a semaphore."""
    return _held(dialect, jobs.c.rank >= literal_column(str(HOLDER_BOOST // 2)))


def _granted_unlaned(dialect: Dialect) -> Executable:
    """Return the same for a queue without jobs in lanes: one step of the index."""
    unlaned = jobs.c.lane == literal_column(str(UNLANED))
    return _held(dialect, jobs.c.rank >= literal_column(str(HOLDER_BOOST // 2)), unlaned)


class InOrder:
    """Reserves the head of an ordered queue."""

    def __init__(self, db: Database, queues: QueueRows, next_jobs: ReservesNext, lanes: NextInLanes) -> None:
        self._db, self._queues, self._next_jobs, self._lanes = db, queues, next_jobs, lanes
        once = db.dialect.once
        self._of_key, self._granted, self._granted_unlaned = once(_of_key), once(_granted), once(_granted_unlaned)

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, queue: QueueRow) -> Admission:
        """Reserve the head, or else the next job, which becomes the head; `queue`: its row, locked."""
        if queue.head is not None:
            given = {"head": queue.head, "queue": claim.queue}
            if found := run.rows(_HEAD, given):
                state, run_at, lane, rank, waits_kind, order_key = found[0]
                first, last = claim.lanes or (lane, lane)
                if rank < claim.min_rank:
                    return Admission([])
                if state == JobState.WAITING and (ids := self._holder(run, settings, waits_kind, order_key)):
                    return self._next_jobs.reserve_these(run, claim, search, settings, _named(claim, ids), 1)
                if state != QUEUED or not first <= lane <= last or not _named(claim, [queue.head]):
                    return Admission([])
                if (early := run_at - self._db.clock(run)) > 0:
                    return Admission([], retry_in=early / SECOND)
                if not run.rows(_LOCK_HEAD, given):
                    return Admission([])  # another transaction is changing it
                return self._next_jobs.reserve_these(run, claim, search, settings, [queue.head], 1)
        ids = _named(claim, self._next(run, claim, search, settings, queue))
        if not ids:
            return Admission([])
        self._queues.change(run, claim.queue, "head", ids[0])
        return self._next_jobs.reserve_these(run, claim, search, settings, ids, 1)

    def _next(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, queue: QueueRow) -> list[str]:
        """Return the id of the next due job, locked."""
        search.asking.clear()
        if settings.uses_lanes:  # left from before the queue was ordered
            return self._lanes.first(run, claim, queue)
        return [] if excludes_unlaned(claim) else self._next_jobs.first(run, claim, search)

    def _holder(self, run: Runner, settings: QueueSettings, waits_kind: str, order_key: str | None) -> list[str]:
        """Return the locked id of the due job that holds the slot the head waits for. Only jobs enqueued before the
        queue was ordered can hold it.
        """
        given = {"queue": settings.name}
        if waits_kind == ORDER:
            found = run.rows(self._of_key, {**given, "order_key": order_key})
        else:
            found = run.rows(self._granted if settings.uses_lanes else self._granted_unlaned, given)
        return [str(job_id) for (job_id,) in found]


def _named(claim: Claim, ids: Sequence[str]) -> list[str]:
    """Return the jobs that the claim names; all if it names none."""
    names = claim.workers
    return [one for one in ids if not names or one in names]
