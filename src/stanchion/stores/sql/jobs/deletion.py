"""Deletion of jobs that are archived elsewhere, or no longer wanted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import Executable, select

from stanchion.stores.records.jobs import JobRef
from stanchion.stores.sql.engine.columns import RUNNING, held_row, id_as_text
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import history, jobs
from stanchion.stores.sql.rows.jobs import Jobs, Step, is_id, outline
from stanchion.stores.sql.rows.slots import record_freed
from stanchion.stores.sql.rows.transactions import Transactions


class DeletionStatements:
    """The statements that lock the jobs to be deleted, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids = dialect.values("ids", jobs.c.id.type)
        self.queued_locked: Executable = (
            select(*held_row()).where(jobs.c.id.in_(ids), jobs.c.state != RUNNING).order_by(jobs.c.id).with_for_update()
        )
        ended = select(id_as_text(history.c.id), history.c.finished_at).where(history.c.id.in_(ids))
        self.ends_locked = ended.with_for_update()


class Deletion:
    """Deletes jobs that have not changed since they were read."""

    def __init__(
        self,
        db: Database,
        transactions: Transactions,
        jobs: Jobs,
        statements: type[DeletionStatements] = DeletionStatements,
    ) -> None:
        self._transactions, self._jobs = transactions, jobs
        self._statements = db.dialect.once(statements)

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        """Delete finished and queued jobs; return for each whether it was deleted."""
        wanted = {ref for ref in refs if is_id(ref.id)}
        queued = {ref for ref in wanted if ref.finished_at is None}

        def work(run: Runner, again: bool) -> set[JobRef]:
            deleted = self._delete_queued(run, queued) if queued else set[JobRef]()
            if ended := wanted - queued:
                deleted |= self._delete_ended(run, ended)
            if again:  # the first try's deletions are gone
                stored = self._jobs.stored(run, {ref.id for ref in wanted - deleted})
                deleted |= {ref for ref in wanted if ref.id not in stored}
            return deleted

        deleted = self._transactions.write(work) if wanted else set()
        return [ref in deleted for ref in refs]

    def _delete_queued(self, run: Runner, refs: Iterable[JobRef]) -> set[JobRef]:
        found = [outline(*row) for row in run.rows(self._statements.queued_locked, _ids_of(refs))]
        self._jobs.remove(run, [row.id for row in found], {row.queue for row in found})
        record_freed(run, [Step(row, None) for row in found])
        return {row.ref for row in found}

    def _delete_ended(self, run: Runner, refs: set[JobRef]) -> set[JobRef]:
        found = refs.intersection(JobRef(*row) for row in run.rows(self._statements.ends_locked, _ids_of(refs)))
        self._jobs.forget(run, [ref.id for ref in found])
        return found


def _ids_of(refs: Iterable[JobRef]) -> Params:
    return {"ids": json.dumps(sorted({ref.id for ref in refs}))}
