"""The stored shapes of queues, reset once their jobs need only a plain claim; see `rules.capacity.shapes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import text

from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.shapes import FEW
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.queues import QueueRows


class ShapeStatements:
    """The statements that find the needs of a queue's live jobs, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        index, order = dialect.by("stanchion_jobs_ready"), dialect.by("stanchion_jobs_order")
        some = f"SELECT order_key, limits FROM stanchion_jobs {index} WHERE queue = :queue AND state ="
        # Jobs that wait for a slot are not counted: the claim meets them once the slot is granted.
        self.counted = text(f"""
            SELECT count(*), count(order_key) + count(limits) FROM (
                SELECT * FROM ({some} 'queued' ORDER BY lane LIMIT :most) AS queued
                UNION ALL
                SELECT * FROM ({some} 'running' ORDER BY worker LIMIT :most) AS running
            ) AS found
        """)
        self.in_lanes = text(f"SELECT lane FROM stanchion_jobs WHERE queue = :queue AND lane > {UNLANED} LIMIT 1")
        # In the order of the indexes: with another order, a planner may read the whole table for one job.
        last_lane = f"""
            SELECT lane FROM stanchion_jobs {index} WHERE queue = {{queue}} AND state = 'queued'
            ORDER BY lane DESC LIMIT 1
        """
        keyed = f"""
            SELECT order_key FROM stanchion_jobs {order} WHERE queue = {{queue}} AND order_key > ''
            ORDER BY order_key LIMIT 1
        """
        self.missing = text(f"SELECT ({last_lane}) > {UNLANED}, ({keyed})".format(queue=":queue"))
        if dialect.keys_by_queue:
            may_be_keyed = f"({keyed}) IS NOT NULL"
        else:  # the index begins with the key: all keyed jobs of other queues may precede this queue's
            may_be_keyed = f"""
                EXISTS (SELECT 1 FROM stanchion_jobs {order} WHERE order_key > '')
                AND EXISTS (SELECT 1 FROM stanchion_jobs {index} WHERE queue = {{queue}})
            """
        each = f"""
            SELECT each_queue.name FROM stanchion_queues AS each_queue
            WHERE ({last_lane}) > {UNLANED} OR ({may_be_keyed})
        """
        self.needing = text(each.format(queue="each_queue.name"))


class Shapes:
    """Corrects shapes."""

    def __init__(self, db: Database, queues: QueueRows) -> None:
        self._db, self._queues = db, queues
        self._statements = db.dialect.once(ShapeStatements)

    def keep_up(self, queues: Sequence[QueueSettings]) -> None:
        """Reset shapes that claim more than the queue's few jobs need, and correct shapes that claim less."""
        for settings in queues:
            if settings.uses_slots or settings.uses_lanes > (settings.lanes > 1):
                self._change(self._set_back, settings)
        partly = [settings for settings in queues if not (settings.uses_slots and settings.uses_lanes)]
        if partly:
            needing = {name for (name,) in self._db.read(lambda run: run.rows(self._statements.needing))}
            partly = [settings for settings in partly if settings.name in needing]
        missing = self._db.in_one(self._statements.missing, [{"queue": settings.name} for settings in partly])
        for settings, ((in_lanes, keyed),) in zip(partly, missing, strict=True):
            if (in_lanes and not settings.uses_lanes) or (keyed and not settings.uses_slots):
                self._change(self._set_right, settings)

    def _change(self, change: Callable[[Runner, QueueSettings], None], settings: QueueSettings) -> None:
        self._db.write(lambda run, _again: change(run, settings))

    def _set_back(self, run: Runner, settings: QueueSettings) -> None:
        queue = {"queue": settings.name}
        if settings.uses_slots:
            ((live, using),) = run.rows(self._statements.counted, {**queue, "most": FEW + 1})
            if live <= FEW and not using:
                self._queues.change(run, settings.name, "uses_slots", value=False)
                self._queues.forget_shape(settings.name)
        if settings.uses_lanes and settings.lanes < 2 and not run.rows(self._statements.in_lanes, queue):
            self._queues.change(run, settings.name, "uses_lanes", value=False)

    def _set_right(self, run: Runner, settings: QueueSettings) -> None:
        ((in_lanes, keyed),) = run.rows(self._statements.missing, {"queue": settings.name})
        if in_lanes and not settings.uses_lanes:
            self._queues.change(run, settings.name, "uses_lanes", value=True)
        if keyed and not settings.uses_slots:
            self._queues.change(run, settings.name, "uses_slots", value=True)
