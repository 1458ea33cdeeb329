"""PostgreSQL's handling of whole batches: COPY into the stage, and commits that return no rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from sqlalchemy import text

from stanchion.core.values.framing import as_text
from stanchion.stores.postgres.outcomes.commits import PLAIN
from stanchion.stores.postgres.pick import ITEMS, ONCE, listed
from stanchion.stores.postgres.push import DEFAULTS, PAYLOAD_OF
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.staging import Finish
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import SAVEPOINT, TO_SAVEPOINT, CursorRunner, Params, Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS
from stanchion.stores.sql.staging.staging import StagedJobs, staged
from stanchion.stores.sql.staging.statements import StageStatements

_UNIQUE_VIOLATION = "23505"

_DONE = listed(HISTORY_COLUMNS, state="'done'", finished_at=ONCE, result="NULL")

_FINISH = text(f"""
    WITH gone AS (
        DELETE FROM stanchion_jobs AS job
        WHERE queue = :queue AND state = 'running' AND token = :token
            AND (lease_until IS NULL OR lease_until > {ONCE}) AND {PLAIN}
        RETURNING job.*
    ), kept AS (
        INSERT INTO stanchion_history ({listed(HISTORY_COLUMNS)})
        SELECT {_DONE} FROM gone
        WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues WHERE name = :queue AND history_ttl <= 0)
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT :queue, 'committed', {ITEMS} FROM gone HAVING count(*) > 0
    )
    SELECT count(*) FROM gone
""")


# A plan made while a table was empty would scan the full table once per row.
_BY_INDEXES = text("SELECT set_config('enable_seqscan', 'off', true)")


class CopyStaged:
    """Stages jobs by COPY, and publishes batches of new jobs without a search for each."""

    def __init__(self, db: Database, general: StagedJobs) -> None:
        self._db, self._general = db, general
        self._statements = db.dialect.once(StageStatements)

    def add(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        try:
            self._db.statement(lambda run, _again: self._copy(run, write, attempt, jobs), calls.seconds_for(len(jobs)))
        except self._db.dialect.errors as error:
            if getattr(error, "sqlstate", None) != _UNIQUE_VIOLATION:
                raise
            self._general.add(write, attempt, jobs)  # some are staged already: only this skips them

    def _copy(self, run: CursorRunner, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Copy jobs into the stage; if all are like the first one, only the columns that it sets."""
        from stanchion.stores.postgres.connections.sessions import cursor_of

        place = (write, attempt, self._db.clock(run))
        special = [n for n, default in enumerate(DEFAULTS) if jobs[0][n] != default]
        values: Iterable[tuple[object, ...]]
        if bytes in set(map(type, map(PAYLOAD_OF, jobs))):
            jobs = [job._replace(payload=as_text(job.payload)) for job in jobs]
        if jobs[0].delay is None and _all_plain(jobs, set(range(len(DEFAULTS))) - set(special)):
            values = map(itemgetter(*special), jobs)
        else:
            special = list(range(len(DEFAULTS)))
            values = (tuple(staged(job).values()) for job in jobs)
        names = ("write", "attempt", "staged_at", *(NewJob._fields[n] for n in special))
        listing = ", ".join(f'"{name}"' for name in names)
        into = self._db.dialect.qualified("stanchion_stage")
        with cursor_of(run).copy(f"COPY {into} ({listing}) FROM STDIN") as copy:
            for of_job in values:
                copy.write_row(place + of_job)

    def begin(self, run: Runner) -> None:
        run.rows(_BY_INDEXES)

    def store(self, run: Runner, given: Params) -> int:
        if run.rows(self._statements.any_finished, given):
            return self._general.store(run, given)
        # Inserting rows that are all new costs two thirds of an insert that checks for existing ones.
        run.change(SAVEPOINT)
        try:
            return run.change(self._statements.publish_new, given)
        except self._db.dialect.errors as error:
            if getattr(error, "sqlstate", None) != _UNIQUE_VIOLATION:
                raise
            run.change(TO_SAVEPOINT)
            return self._general.store(run, given)


class PostgresPlainFinish:
    """Commits plain jobs by one statement."""

    def finish(self, run: Runner, finish: Finish) -> int:
        return int(run.rows(_FINISH, {"queue": finish.queue, "token": finish.token})[0][0])


def _all_plain(jobs: Sequence[NewJob], fields: Iterable[int]) -> bool:
    """Return whether the jobs have only defaults in these fields."""
    of = itemgetter(*fields)
    plain = of(DEFAULTS)
    return all(of(job) == plain for job in jobs)
