"""Deleting finished jobs that are kept elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, String, cast, select

from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import history


class Discarding(SqlBase):
    """Deletes finished jobs as they were seen."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._ends_locked = self.dialect.once(_ends_locked)

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        wanted = set(ends)
        ids = {"ids": json.dumps(sorted({job_id for job_id, _ in wanted}))}

        def work(run: Runner, _again: bool) -> int:
            found = [row[0] for row in run.rows(self._ends_locked, ids) if (row[0], row[1]) in wanted]
            return self.jobs.forget(run, found)

        return self.database.write(work) if wanted else 0


def _ends_locked(dialect: Dialect) -> Select[Any]:
    ids = dialect.values("ids", history.c.id.type)
    identity = cast(history.c.id, String(36))
    return select(identity, history.c.finished_at).where(history.c.id.in_(ids)).with_for_update()
