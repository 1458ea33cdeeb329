"""Claims of jobs by their ids, each for its worker.

    1. lock the queued and due jobs that no other transaction holds
    2. reserve them as any claim would, all for the worker of the first
    3. if others are for other workers, write these, by one statement

A job that another transaction has locked is left out, so the claim never waits for one. It waits only for the row of
its queue, if that has limits, and for slots; the clock is compared with `Claim.not_after` after the last such wait.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import BigInteger, Executable, String, cast, literal_column, select, text

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.slots import uses_slots
from stanchion.stores.sql.claims.admission import ASKING, Admission, asking
from stanchion.stores.sql.claims.next_jobs import ReservesNext
from stanchion.stores.sql.claims.reservations import lease_of
from stanchion.stores.sql.claims.search import Search
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import jobs

_NEVER = 2**62
"""Later than any clock."""


class ByIdStatements:
    """The statements about jobs that a claim names, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        these = text(dialect.among("stanchion_jobs.id", "ids", "uuid"))
        # The spelling of the state keeps planners from the partial index of queued jobs, which may be long.
        queued = jobs.c.state.op("IN", is_comparison=True)(literal_column("('queued', '')"))
        due = queued, jobs.c.run_at <= dialect.now, dialect.now <= param("not_after", BigInteger)
        self.pick: Executable = (
            select(cast(jobs.c.id, String(36)), *(jobs.c[name] for name in ASKING))
            .where(jobs.c.queue == param("queue", String), these, *due)
            .with_for_update(skip_locked=True)
        )
        # SQLite would read all of `given` for each job then.
        by_array = "TRUE" if dialect.single_writer else these
        self.assign: Executable = text(f"""
            UPDATE stanchion_jobs SET worker = coalesce(given.worker, :holder),
                lease_until = CASE WHEN given.worker IS NULL THEN started_at + CAST(:lease_micros AS BIGINT) END
            FROM {dialect.assignments("assigned")}
            WHERE queue = :queue AND stanchion_jobs.id = given.id AND {by_array}
        """)


class JobsById:
    """Reserves the jobs that a claim names."""

    def __init__(
        self, db: Database, next_jobs: ReservesNext, statements: type[ByIdStatements] = ByIdStatements
    ) -> None:
        self._dialect, self._next_jobs = db.dialect, next_jobs
        self._statements = db.dialect.once(statements)

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        """Reserve up to `limit` of the jobs that a claim names, in its order, all for the claim's own worker."""
        wanted = claim.workers
        given = {
            "queue": claim.queue,
            "ids": self._dialect.listed(wanted),
            "not_after": _NEVER if claim.not_after is None else claim.not_after,
        }
        search.asking = {str(row[0]): row for row in run.rows(self._statements.pick, given)}
        ids = [one for one in wanted if one in search.asking]
        if not any(uses_slots(asking(row)) for row in search.asking.values()):
            ids = ids[:limit]
        return self._next_jobs.reserve_these(run, claim, search, settings, ids, limit)._replace(more=False)

    def assigned(self, run: Runner, claim: Claim, settings: QueueSettings, rows: Sequence[JobRow]) -> list[JobRow]:
        """Give reserved jobs, which are held for the claim's own worker, to the workers that the claim names."""
        workers, lease_micros = claim.workers, int(lease_of(claim, settings) * SECOND)
        mine = claim.worker or ""
        others = {row.id: workers[row.id] for row in rows if workers[row.id] != mine}
        if not others:
            return list(rows)
        given = {
            "queue": claim.queue,
            "ids": self._dialect.listed(others),
            "assigned": json.dumps([[job_id, worker or None] for job_id, worker in others.items()]),
            "holder": claim.holder,
            "lease_micros": lease_micros,
        }
        run.send(self._statements.assign, given)
        return [_held(row, others[row.id], claim, lease_micros) if row.id in others else row for row in rows]


def _held(row: JobRow, worker: str, claim: Claim, lease_micros: int) -> JobRow:
    """Return a reserved job as its worker holds it."""
    lease_until = None if worker else (row.started_at or 0) + lease_micros
    return row._replace(worker=claim.of(worker).held_by, lease_until=lease_until)
