"""Queues that expire, as rows."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import BigInteger, String, delete, func, select, union_all

from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.expiry import Expiring, Use
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.columns import RUNNING, param
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import counts, jobs, queues, tallies
from stanchion.stores.sql.jobs import Step, outline
from stanchion.stores.sql.queue_rows import QueueRow

_QUEUE = param("queue", String)
_EXPIRING = select(*queues.columns).where(queues.c.expires.is_not(None)).order_by(queues.c.name)
_EVENTS = union_all(
    *(
        select(table.c.queue, func.sum(table.c.n))
        .join_from(table, queues, queues.c.name == table.c.queue)
        .where(queues.c.expires.is_not(None))
        .group_by(table.c.queue)
        for table in (counts, tallies)
    )
)
_LIVE = select(jobs.c.id).where(jobs.c.queue == _QUEUE).limit(1)
_RUNNING = _LIVE.where(jobs.c.state == RUNNING)
_TALLIES = select(tallies.c.id).where(tallies.c.queue == _QUEUE)
_OLD = (jobs.c.queue == _QUEUE, jobs.c.enqueued_at <= param("before", BigInteger), jobs.c.state != RUNNING)
_REMOVE_OLD = delete(jobs).where(*_OLD)
_REMOVE_COUNTS = delete(counts).where(counts.c.queue == _QUEUE)
_REMOVE = delete(queues).where(queues.c.name == _QUEUE)


class ExpiringQueues(SqlBase):
    """Notes when queues were used, and removes those that were not."""

    def expiring(self) -> list[Expiring]:
        """Return the queues that expire."""

        def work(run: Runner) -> list[Expiring]:
            rows = [QueueRow(*row) for row in run.rows(_EXPIRING)]
            events: Counter[str] = Counter()
            for queue, number in run.rows(_EVENTS) if rows else ():
                events[queue] += int(number)
            return [Expiring(row.settings, events[row.name], _noted(row)) for row in rows]

        return self.database.read(work)

    def note_use(self, queue: str, use: Use) -> None:
        """Note the use of a queue."""
        self.database.write(lambda run, _again: self.queue_rows.write_use(run, queue, use))

    def remove_unused(self, settings: QueueSettings, noted: Use) -> None:
        """Remove a queue, unless anything has happened since this was noted.

        A push does not wait for the row of its queue: what it brings meanwhile stays, only without the settings.
        """
        one = {"queue": settings.name}

        def work(run: Runner, _again: bool) -> None:
            row = self.queue_rows.find(run, settings.name, lock=True)
            if row is None or row.settings != settings or _noted(row) != noted:
                return
            if run.rows(_RUNNING if settings.expires_with_jobs else _LIVE, one):
                return
            counted = run.rows(_TALLIES, one)
            if sum(number for _, number in run.rows(self.statements.counted, one)) != noted.events:
                return
            if settings.expires_with_jobs:
                self._remove_jobs(run, settings.name, noted.at)
            run.change_each(self.statements.remove_tally, [{"tally": tally} for (tally,) in counted])
            run.change(_REMOVE_COUNTS, one)
            run.change(_REMOVE, one)
            run.change(self.statements.forget_ranges, one)

        self.transactions.write(work)

    def _remove_jobs(self, run: Runner, queue: str, before: int) -> None:
        given = {"queue": queue, "before": before}
        tied = [outline(*row) for row in run.rows(self.statements.tied.where(*_OLD), given)]
        run.change(_REMOVE_OLD, given)
        self.flows.follow(run, [Step(row, None) for row in tied])


def _noted(row: QueueRow) -> Use | None:
    return Use(row.active_events, row.active_at) if row.active_at else None
