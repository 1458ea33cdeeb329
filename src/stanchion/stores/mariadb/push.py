"""How MariaDB and MySQL insert new jobs: none whose key is known to be taken, all others by one statement."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text

from stanchion.stores.mariadb.statements import names_of
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import BACK, MARK, Runner
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS
from stanchion.stores.sql.jobs import Jobs
from stanchion.stores.sql.push import Inserts, InsertStatements

_TAKEN = text("SELECT `key`, queue FROM stanchion_jobs FORCE INDEX (stanchion_jobs_key) WHERE (`key`, queue) IN :keys")
_ID_OF_KEY = text(
    "SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_key) WHERE `key` = :job_key AND queue = :queue"
)
_HOLDER = text(f"""
    SELECT {names_of(LIVE_COLUMNS)} FROM stanchion_jobs FORCE INDEX (PRIMARY)
    WHERE id = :job AND queue = :queue AND `key` = :job_key LOCK IN SHARE MODE
""")


class MariaDBInsertStatements(InsertStatements):
    """The shared statement, in another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        # Shared, as the insert that met the key has shared it: two that met it must not wait for each other.
        self.holder = self.holder.with_for_update(read=True)


class MariaDBInserts:
    """Inserts jobs by whole sets."""

    def __init__(self, jobs: Jobs, general: Inserts) -> None:
        self._jobs, self._general = jobs, general

    def insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        # An insert that meets a key locks it and the gap before it, in a caller's transaction until its end: so none
        # is tried where the key is known to be taken.
        keys = {(row.key, row.queue): row for row in reversed(rows) if row.key is not None}
        if keys:
            taken = set(run.rows(_TAKEN, {"keys": sorted(keys)}))
            free = {row.id for key, row in keys.items() if key not in taken}
            rows = [row for row in rows if row.key is None or row.id in free]
        return self._insert_free(run, rows, singly)

    def _insert_free(self, run: Runner, rows: Sequence[JobRow], singly: bool) -> list[JobRow]:
        if singly or len(rows) < 2:
            return [row for row in rows if self._jobs.insert_one(run, row)]
        # One order for all: two batches that share keys or ids wait for each other, and not in a circle.
        ordered = sorted(rows, key=lambda row: (row.queue, row.key or "", row.id))
        run.send(MARK)
        if self._jobs.insert(run, ordered) == len(rows):
            return list(rows)
        run.change(BACK)  # some were left out; one by one tells which
        return self._insert_free(run, ordered, singly=True)

    def stored(self, run: Runner, job: NewJob) -> Pushed | None:
        if job.key is None:  # a caller's transaction may read as of its beginning, and not see what it met
            for known in self._jobs.lock(run, [job.id]).values():
                return Pushed(known.id, known.run_at, known.enqueued_at)
        return self._general.stored(run, job)

    def holder(self, run: Runner, queue: str, key: str | None) -> JobRow | None:
        # By its id: who goes by the key locks that first, and the end of the job locks it last.
        known = run.rows(_ID_OF_KEY, {"queue": queue, "job_key": key})
        found = run.rows(_HOLDER, {"job": known[0][0], "queue": queue, "job_key": key}) if known else []
        return JobRow(*found[0]) if found else self._general.holder(run, queue, key)
