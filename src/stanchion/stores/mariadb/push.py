"""Inserts of new jobs on MariaDB and MySQL: jobs with keys known to be taken are skipped, the rest is one statement."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text

from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.mariadb.statements import names_of
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import SAVEPOINT, TO_SAVEPOINT, Runner
from stanchion.stores.sql.jobs.push import Inserts, InsertStatements
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.jobs import Jobs

_TAKEN = text("SELECT `key`, queue FROM stanchion_jobs FORCE INDEX (stanchion_jobs_key) WHERE (`key`, queue) IN :keys")
_ID_OF_KEY = text(
    "SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_key) WHERE `key` = :job_key AND queue = :queue"
)
_HOLDER, _HOLDER_TO_REPLACE = (
    text(f"""
        SELECT {names_of(LIVE_COLUMNS)} FROM stanchion_jobs FORCE INDEX (PRIMARY)
        WHERE id = :job AND queue = :queue AND `key` = :job_key {locking}
    """)
    for locking in ("LOCK IN SHARE MODE", "FOR UPDATE")
)


class MariaDBInsertStatements(InsertStatements):
    """The shared statement, with another lock."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        # A shared lock, like the insert's that met the key: two such callers must not deadlock.
        self.holder = self.holder.with_for_update(read=True)


class MariaDBInserts:
    """Inserts jobs as whole sets."""

    def __init__(self, jobs: Jobs, general: Inserts) -> None:
        self._jobs, self._general = jobs, general

    def insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        # An insert that meets a key locks it and the gap before it, in a caller's transaction until its end. So no
        # insert is tried if the key is known to be taken.
        keys = {(row.key, row.queue): row for row in reversed(rows) if row.key is not None}
        if keys:
            taken = set(run.rows(_TAKEN, {"keys": sorted(keys)}))
            free = {row.id for key, row in keys.items() if key not in taken}
            rows = [row for row in rows if row.key is None or row.id in free]
        return self._insert_free(run, rows, singly)

    def _insert_free(self, run: Runner, rows: Sequence[JobRow], singly: bool) -> list[JobRow]:
        if singly or len(rows) < 2:
            return [row for row in rows if self._jobs.insert_one(run, row)]
        # One order for all callers: two batches that share keys or ids can't deadlock.
        ordered = sorted(rows, key=lambda row: (row.queue, row.key or "", row.id))
        run.send(SAVEPOINT)
        if self._jobs.insert(run, ordered) == len(rows):
            return list(rows)
        run.change(TO_SAVEPOINT)  # some were skipped; single inserts show which
        return self._insert_free(run, ordered, singly=True)

    def stored(self, run: Runner, job: NewJob) -> Pushed | None:
        if job.key is None:  # a caller's snapshot may be too old to see the conflicting row
            for known in self._jobs.lock(run, [job.id]).values():
                return Pushed(known.id, known.run_at, known.enqueued_at)
        return self._general.stored(run, job)

    def holder(self, run: Runner, queue: str, key: str | None, *, to_replace: bool = False) -> JobRow | None:
        # By id: a search by key locks the key first, but the end of the job locks it last.
        known = run.rows(_ID_OF_KEY, {"queue": queue, "job_key": key})
        # Two callers that share a lock and then both rewrite the job deadlock.
        holder = _HOLDER_TO_REPLACE if to_replace else _HOLDER
        found = run.rows(holder, {"job": known[0][0], "queue": queue, "job_key": key}) if known else []
        return row_from(found[0]) if found else self._general.holder(run, queue, key)
