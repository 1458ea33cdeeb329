"""The next jobs of a queue: by rank, in lanes round-robin, and one at a time in an ordered queue.

The row of an ordered queue names its head: the job that was delivered, parked or deferred last. As long as the head is
live in the queue, whatever it waits for, a claim takes it or nothing. Once it is gone, the next job becomes the head.
The row is locked meanwhile, so that all claimers see one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import ColumnElement, Executable, String, literal_column, select

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, UNLANED, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import ORDER
from stanchion.stores.rules.capacity.slots import LEAST_GRANTED
from stanchion.stores.sql.claims.admit import Admission, Admissions
from stanchion.stores.sql.claims.lanes import Lanes
from stanchion.stores.sql.claims.pick import FindsDue, Search
from stanchion.stores.sql.claims.reserve import Reserves
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import jobs
from stanchion.stores.sql.rows.jobs import ID_OF
from stanchion.stores.sql.rows.queue_row import QueueRow
from stanchion.stores.sql.rows.queues import QueueRows


class ReservesNext(Protocol):
    """Reserves the next due jobs outside of lanes."""

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        """Reserve up to `limit` of them; return their rows after the change, in order."""

    def reserve_these(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, ids: Sequence[str], room: int
    ) -> Admission:
        """Reserve up to `room` of these locked jobs, in order, as far as there are free slots."""

    def first(self, run: Runner, claim: Claim, search: Search) -> list[str]:
        """Return the id of the next due job, locked, if there is one."""


class NextJobs:
    """Finds the next due jobs, locks them, and reserves the ones that may run."""

    def __init__(self, due: FindsDue, reserves: Reserves, admissions: Admissions) -> None:
        self._due, self._reserves, self._admissions = due, reserves, admissions

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        picks = search.picks(limit, uses_slots=settings.uses_slots)
        search.asking.clear()
        ids = self._due.due(run, claim.queue, picks, search)
        found = self.reserve_these(run, claim, search, settings, ids, limit)
        # If these were all due jobs, there are no more, unless a slot has become free.
        return found._replace(more=found.more and (len(ids) == picks or bool(run.freed)))

    def first(self, run: Runner, claim: Claim, search: Search) -> list[str]:
        return self._due.due(run, claim.queue, 1, search)

    def reserve_these(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, ids: Sequence[str], room: int
    ) -> Admission:
        """Reserve up to `room` of these locked jobs, in order, as far as there are free slots."""
        if not ids:
            return Admission([])
        plain: dict[str, JobRow] = {}
        if len(ids) <= room and not settings.uses_slots:
            rows = self._reserves.plain(run, claim, settings, ids)
            plain = dict(zip(map(ID_OF, rows), rows, strict=True))
            if len(plain) == len(ids):
                return Admission(list(map(plain.__getitem__, ids)))
        elif len(ids) <= room and (rows := self._reserves.with_slots(run, claim, settings, ids)):
            taken = {row.id: row for row in rows}
            return Admission([taken[one] for one in ids], asked=True)
        left = [one for one in ids if one not in plain]
        found = self._admissions.admit(run, claim, search, settings, left, room - len(plain))
        reserved = plain | {row.id: row for row in found.rows}
        return found._replace(rows=[reserved[one] for one in ids if one in reserved])


class NextInLanes:
    """Reserves jobs of the next lanes, and stores the lane that was served last."""

    def __init__(self, lanes: Lanes, jobs: NextJobs) -> None:
        self._lanes, self._jobs = lanes, jobs

    def reserve(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int, queue: QueueRow
    ) -> Admission:
        """Reserve up to `limit` jobs, round-robin over the lanes; `queue`: its row, locked."""
        before = served = self._lanes.served(run, claim, queue)
        held: list[JobRow] = []
        found = Admission([])
        while len(held) < limit and not found.asked:
            room = limit - len(held)
            picks = self._lanes.next_picks(run, claim, max(room, search.least), served)
            found = self._jobs.reserve_these(run, claim, search, settings, [pick.id for pick in picks], room)
            if not found.rows:
                break
            held += found.rows
            served = held[-1].lane
        if served != before:
            self._lanes.serve(run, claim, served)
        return found._replace(rows=held, more=found.asked and len(held) < limit)

    def first(self, run: Runner, claim: Claim, queue: QueueRow) -> list[str]:
        """Return the id of the next due job, locked, if there is one; `queue`: its row, locked."""
        picks = self._lanes.next_picks(run, claim, 1, self._lanes.served(run, claim, queue))
        for pick in picks:
            self._lanes.serve(run, claim, pick.lane)
        return [pick.id for pick in picks]


def excludes_unlaned(claim: Claim) -> bool:
    """Return whether the claim excludes the jobs without a lane."""
    return claim.lanes is not None and claim.lanes[0] > UNLANED


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


_IS_GRANTED = jobs.c.slots_hold.is_not(None), jobs.c.rank > literal_column(str(LEAST_GRANTED))


def _granted(dialect: Dialect) -> Executable:
    """Return the query for a job that was granted a semaphore."""
    return _held(dialect, *_IS_GRANTED)


def _granted_unlaned(dialect: Dialect) -> Executable:
    """Return the same for a queue without jobs in lanes: one step of the index."""
    unlaned = jobs.c.lane == literal_column(str(UNLANED))
    return _held(dialect, *_IS_GRANTED, unlaned)


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
