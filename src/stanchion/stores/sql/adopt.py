"""Jobs from another store, and jobs that another store has now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Executable, Select, String, cast, select

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS, history, jobs
from stanchion.stores.sql.jobs import Step, is_id, kept, outline
from stanchion.stores.sql.slots import note_freed


class Transferring(SqlBase):
    """Stores and deletes whole jobs, as they are."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._keep_new = self.dialect.once(_keep_new)
        self._finished_locked = self.dialect.once(_finished_locked)

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        if not rows:
            return []
        queues = sorted({row.queue for row in rows})
        # One order for all: two calls with the same keys wait for each other, and not in a circle.
        ordered = sorted({row.id: row for row in rows}.values(), key=lambda row: (row.queue, row.key or "", row.id))

        def work(run: Runner, _again: bool) -> list[bool]:
            self.queue_rows.insert(run, queues)
            self.queue_rows.mark_letters(run, rows)
            self.queue_rows.make_laned(run, {row.queue for row in rows if row.lane})
            known = self.jobs.stored(run, [row.id for row in rows])
            new = [row for row in ordered if row.id not in known]
            self.jobs.insert(run, [row for row in new if row.finished_at is None])
            run.change_each(self._keep_new, [kept(row) for row in new if row.finished_at is not None])
            stored = self.jobs.stored(run, [row.id for row in rows]) if new else known
            return [row.id in stored for row in rows]

        adopted = self.database.write(work)
        self.dialect.announce(queues)
        return adopted

    def take(self, ids: Sequence[str]) -> list[str]:
        wanted = [one for one in dict.fromkeys(ids) if is_id(one)]
        given = {"ids": json.dumps(wanted)}

        def work(run: Runner, again: bool) -> list[str]:
            live = [outline(*row) for row in run.rows(self.statements.queued_locked, given)]
            taken = {row.id for row in live}
            self.jobs.remove(run, sorted(taken))
            note_freed(run, [Step(row, None) for row in live])
            taken |= {row[0] for row in run.rows(self._finished_locked, given)}
            self.jobs.forget(run, wanted)
            if again:  # what the first try deleted is gone
                taken |= set(wanted) - self.jobs.stored(run, wanted).keys()
            return [one for one in wanted if one in taken]

        return self.transactions.write(work) if wanted else []


def _keep_new(dialect: Dialect) -> Executable:
    return dialect.insert_ignoring(history, {name: param(name, history.c[name].type) for name in HISTORY_COLUMNS})


def _finished_locked(dialect: Dialect) -> Select[Any]:
    ids = dialect.values("ids", jobs.c.id.type)
    return select(cast(history.c.id, String(36))).where(history.c.id.in_(ids)).with_for_update()
