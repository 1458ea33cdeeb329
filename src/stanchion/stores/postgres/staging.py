"""PostgreSQL's own ways for whole batches: COPY into the stage, reservations and commits that return no rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import text

from stanchion.stores.postgres.pick import ONCE, PICKED, RESERVED, listed
from stanchion.stores.postgres.push import DEFAULTS
from stanchion.stores.postgres.settle import PLAIN
from stanchion.stores.postgres.store import PostgresStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.staging import Finish
from stanchion.stores.sql.engine.runner import BACK, MARK, CursorRunner, Params, Runner
from stanchion.stores.sql.engine.schema import HISTORY_COLUMNS
from stanchion.stores.sql.staging import seconds_for, staged

_UNIQUE_VIOLATION = "23505"

_RESERVE = text(f"""
    {PICKED}, claimed AS (
        UPDATE stanchion_jobs AS job SET {RESERVED}
        WHERE job.ctid = ANY (ARRAY(SELECT place FROM picked WHERE NOT EXISTS (SELECT 1 FROM picked WHERE gated)))
        RETURNING 1
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM claimed
        WHERE right(CAST(:token AS text), 1) <> '-' HAVING count(*) > 0
    )
    SELECT count(*) FROM claimed
""")

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
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT :queue, 'committed', count(*) FROM gone HAVING count(*) > 0
    )
    SELECT count(*) FROM gone
""")


# A plan that was made while a table was empty would scan all of it for every row, now that it is full.
_BY_INDEXES = text("SELECT set_config('enable_seqscan', 'off', true)")


class PostgresBatches(PostgresStore):
    """The PostgreSQL store with batches that never leave the server."""

    def reserve(self, claim: Claim) -> int:
        if not self.claims_at_once(claim):
            return super().reserve(claim)

        def work(run: Runner, again: bool) -> int:
            if again or claim.repeat:
                given = {"queue": claim.queue, "token": claim.token}
                if found := int(run.rows(self._stage.count_in_hand, given)[0][0]):
                    return found
            params = {"queue": claim.queue, "most": claim.limit, **self.reservation_in(run, claim)}
            return int(run.rows(_RESERVE, params)[0][0])

        if self.database.statement(work, seconds_for(claim.limit)):
            return self._count_in_hand(claim.queue, claim.token)
        return super().reserve(claim)

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        if not jobs:
            return
        try:
            self.database.statement(lambda run, _again: self._copy(run, write, attempt, jobs), seconds_for(len(jobs)))
        except self.dialect.errors as error:
            if getattr(error, "sqlstate", None) != _UNIQUE_VIOLATION:
                raise
            super().stage(write, attempt, jobs)  # some are there already: only this leaves them out

    def _copy(self, run: CursorRunner, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Copy the jobs into the stage; where all are like the first one, only the columns in which that is special."""
        place = (write, attempt, self.clock(run))
        special = [n for n, default in enumerate(DEFAULTS) if jobs[0][n] != default]
        values: Iterable[tuple[Any, ...]]
        if jobs[0].delay is None and _all_plain(jobs, set(range(len(DEFAULTS))) - set(special)):
            values = map(itemgetter(*special), jobs)
        else:
            special = list(range(len(DEFAULTS)))
            values = (tuple(staged(job).values()) for job in jobs)
        names = ("write", "attempt", "staged_at", *(NewJob._fields[n] for n in special))
        listing = ", ".join(f'"{name}"' for name in names)
        with run.cursor.copy(f"COPY stanchion_stage ({listing}) FROM STDIN") as copy:
            for of_job in values:
                copy.write_row(place + of_job)

    def publish_in(self, run: Runner, *given: Any, again: bool) -> bool:
        run.rows(_BY_INDEXES)
        return super().publish_in(run, *given, again=again)

    def store_staged(self, run: Runner, given: Params) -> int:
        if run.rows(self._stage.any_finished, given):
            return super().store_staged(run, given)
        # Rows that are all new go in at two thirds of the cost of such as might meet one that is there.
        run.change(MARK)
        try:
            return run.change(self._stage.publish_new, given)
        except self.dialect.errors as error:
            if getattr(error, "sqlstate", None) != _UNIQUE_VIOLATION:
                raise
            run.change(BACK)
            return super().store_staged(run, given)

    def finish_plain(self, run: Runner, finish: Finish) -> int:
        return int(run.rows(_FINISH, {"queue": finish.queue, "token": finish.token})[0][0])


def _all_plain(jobs: Sequence[NewJob], fields: Iterable[int]) -> bool:
    """Tell whether the jobs have nothing but defaults in these fields."""
    of = itemgetter(*fields)
    plain = of(DEFAULTS)
    return all(of(job) == plain for job in jobs)
