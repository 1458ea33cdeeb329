"""Dropping a queue with all its jobs."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import String, delete, func, or_, select

from stanchion.stores.sql.claims.lanes import RANGES
from stanchion.stores.sql.engine.columns import held_row, param
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.engine.schema import counter_events, counts, history, jobs, queues, values
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.rows.jobs import Step, outline
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions

_QUEUE = param("queue", String)
TIED = (
    select(*held_row())
    .where(
        jobs.c.queue == _QUEUE,
        or_(jobs.c.flow_node.is_not(None), jobs.c.order_key.is_not(None), jobs.c.limits.is_not(None)),
    )
    .order_by(jobs.c.id)
    .with_for_update()
)
"""Locks the jobs of a queue whose end has consequences for other jobs."""
FORGET_RANGES = delete(values).where(values.c.kind.startswith(RANGES), values.c.name == _QUEUE)

_OF_QUEUE = select(jobs.c.id).where(jobs.c.queue == _QUEUE).order_by(jobs.c.id).with_for_update().subquery()
_LOCK_ALL = select(func.count()).select_from(_OF_QUEUE)
_DROP_LIVE = delete(jobs).where(jobs.c.queue == _QUEUE)
_DROP = (
    *(delete(table).where(table.c.queue == _QUEUE) for table in (history, counter_events, counts)),
    delete(queues).where(queues.c.name == _QUEUE),
    FORGET_RANGES,
)


class DropsLive(Protocol):
    """Deletes the live jobs of a queue."""

    def drop(self, run: Runner, queue: str) -> tuple[int, list[Row]]:
        """Lock the live jobs in the order of their ids, and delete them; return their number and the tied rows."""


class LiveDrop:
    """Deletes live jobs by two statements."""

    def drop(self, run: Runner, queue: str) -> tuple[int, list[Row]]:
        given = {"queue": queue}
        run.rows(_LOCK_ALL, given)
        tied = run.rows(TIED, given)
        return run.change(_DROP_LIVE, given), tied


class QueueDrop:
    """Drops queues."""

    def __init__(self, transactions: Transactions, queues: QueueRows, flows: Flows, live: DropsLive) -> None:
        self._transactions, self._queues, self._flows, self._live = transactions, queues, flows, live

    def drop_queue(self, queue: str) -> int:
        def work(run: Runner, _again: bool) -> int:
            live, tied = self._live.drop(run, queue)
            for drop in _DROP:
                run.change(drop, {"queue": queue})
            self._flows.follow(run, [Step(outline(*row), None) for row in tied])
            return live

        dropped = self._transactions.write(work)
        self._queues.forget(queue)
        return dropped
