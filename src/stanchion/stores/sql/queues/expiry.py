"""Expiring queues, as rows."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import BigInteger, String, delete, func, select, union_all

from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.upkeep import Expiring, Use
from stanchion.stores.sql.engine.columns import RUNNING, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import counter_events, counts, jobs, queues
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.queues.drop import FORGET_RANGES, TIED
from stanchion.stores.sql.rows.jobs import Step, outline
from stanchion.stores.sql.rows.queue_row import QueueRow, queue_row
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions

_QUEUE = param("queue", String)
_EXPIRING = select(*queues.columns).where(queues.c.expires.is_not(None)).order_by(queues.c.name)
_EVENTS = union_all(
    *(
        select(table.c.queue, func.sum(table.c.n))
        .join_from(table, queues, queues.c.name == table.c.queue)
        .where(queues.c.expires.is_not(None))
        .group_by(table.c.queue)
        for table in (counts, counter_events)
    )
)
_LIVE = select(jobs.c.id).where(jobs.c.queue == _QUEUE).limit(1)
_RUNNING = _LIVE.where(jobs.c.state == RUNNING)
_COUNTER_EVENTS = select(counter_events.c.id).where(counter_events.c.queue == _QUEUE)
_OLD = (jobs.c.queue == _QUEUE, jobs.c.enqueued_at <= param("before", BigInteger), jobs.c.state != RUNNING)
_REMOVE_OLD = delete(jobs).where(*_OLD)
_REMOVE_COUNTS = delete(counts).where(counts.c.queue == _QUEUE)
_COUNTED = (
    select(counts.c.what, counts.c.n)
    .where(counts.c.queue == _QUEUE)
    .union_all(
        select(counter_events.c.what, func.sum(counter_events.c.n))
        .where(counter_events.c.queue == _QUEUE)
        .group_by(counter_events.c.what)
    )
)
REMOVE_EVENT = delete(counter_events).where(counter_events.c.id == param("event", counter_events.c.id.type))
_REMOVE = delete(queues).where(queues.c.name == _QUEUE)


class ExpiringQueues:
    """Records the use of queues, and removes unused ones."""

    def __init__(self, db: Database, transactions: Transactions, queues: QueueRows, flows: Flows) -> None:
        self._db, self._transactions, self._queues, self._flows = db, transactions, queues, flows
        self.now = db.now

    def expiring(self) -> list[Expiring]:
        """Return the queues that expire, with their use."""

        def work(run: Runner) -> list[Expiring]:
            rows = [queue_row(row) for row in run.rows(_EXPIRING)]
            events: Counter[str] = Counter()
            for queue, number in run.rows(_EVENTS) if rows else ():
                events[queue] += int(number)
            return [Expiring(row.settings, events[row.settings.name], _last_use(row)) for row in rows]

        return self._db.read(work)

    def note_use(self, queue: str, use: Use) -> None:
        """Record the use of a queue."""
        self._db.write(lambda run, _again: self._queues.write_use(run, queue, use))

    def remove_unused(self, settings: QueueSettings, recorded: Use) -> None:
        """Remove a queue, unless it was used or changed since `recorded`.

        A push does not wait for the row of its queue. The jobs that it stores meanwhile remain, without the settings.
        """
        one = {"queue": settings.name}

        def work(run: Runner, _again: bool) -> None:
            row = self._queues.find(run, settings.name, lock=True)
            if row is None or row.settings != settings or _last_use(row) != recorded:
                return
            if run.rows(_RUNNING if settings.expires_with_jobs else _LIVE, one):
                return
            counted = run.rows(_COUNTER_EVENTS, one)
            if sum(number for _, number in run.rows(_COUNTED, one)) != recorded.events:
                return
            if settings.expires_with_jobs:
                self._remove_jobs(run, settings.name, recorded.at)
            run.change_each(REMOVE_EVENT, [{"event": event} for (event,) in counted])
            run.change(_REMOVE_COUNTS, one)
            run.change(_REMOVE, one)
            run.change(FORGET_RANGES, one)

        self._transactions.write(work)
        self._queues.forget(settings.name)

    def _remove_jobs(self, run: Runner, queue: str, before: int) -> None:
        given = {"queue": queue, "before": before}
        tied = [outline(*row) for row in run.rows(TIED.where(*_OLD), given)]
        run.change(_REMOVE_OLD, given)
        self._flows.follow(run, [Step(row, None) for row in tied])


def _last_use(row: QueueRow) -> Use | None:
    return Use(row.active_events, row.active_at) if row.active_at else None
