"""Adoption: jobs copied from another store."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Executable

from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.rules.capacity.slots import uses_slots
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS, history
from stanchion.stores.sql.rows.jobs import Jobs, kept
from stanchion.stores.sql.rows.queues import QueueRows


class Adoption:
    """Stores whole jobs unchanged."""

    def __init__(self, db: Database, jobs: Jobs, queues: QueueRows) -> None:
        self._db, self._jobs, self._queues = db, jobs, queues
        self._keep_new = db.dialect.once(_keep_new)

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        if not rows:
            return []
        queues = sorted({row.queue for row in rows})
        # One order for all callers: two calls with the same keys can't deadlock.
        ordered = sorted({row.id: row for row in rows}.values(), key=lambda row: (row.queue, row.key or "", row.id))

        def work(run: Runner, _again: bool) -> list[bool]:
            self._queues.insert(run, queues)
            self._queues.mark_letters(run, rows)
            self._queues.use_lanes(run, {row.queue for row in rows if row.lane != UNLANED})
            self._queues.use_slots(run, {row.queue for row in rows if uses_slots(row)})
            known = self._jobs.stored(run, [row.id for row in rows])
            new = [row for row in ordered if row.id not in known]
            self._jobs.insert(run, [row for row in new if row.finished_at is None])
            run.change_each(self._keep_new, [kept(row) for row in new if row.finished_at is not None])
            stored = self._jobs.stored(run, [row.id for row in rows]) if new else known
            return [row.id in stored for row in rows]

        adopted = self._db.write(work)
        self._db.dialect.announce(queues)
        return adopted


def _keep_new(dialect: Dialect) -> Executable:
    return dialect.insert_ignoring(history, {name: param(name, history.c[name].type) for name in HISTORY_COLUMNS})
