"""PostgreSQL's own forms of the hot statements: each one round trip, and its own transaction."""

from __future__ import annotations

import time
from dataclasses import replace

from sqlalchemy import TextClause, text

from stanchion.stores.postgres.admit import PostgresAdmitting
from stanchion.stores.postgres.flows import PostgresFlowEndStatements
from stanchion.stores.postgres.lanes import Taken, claim_in_turn, taken
from stanchion.stores.postgres.pick import NONE_EXPIRED, NOW, PICKED, RESERVED, WHOLE, listed
from stanchion.stores.postgres.purge import PostgresStatements
from stanchion.stores.postgres.push import PostgresPush
from stanchion.stores.postgres.settle import PostgresCommits, PostgresOutcomes
from stanchion.stores.postgres.slots import claim_at_gates, pick_asking
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.slots import gated
from stanchion.stores.sql.claim import beside_the_lane, reservation
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS
from stanchion.stores.sql.jobs import in_order
from stanchion.stores.sql.parking import Search
from stanchion.stores.sql.push import Push
from stanchion.stores.sql.settle import Outcomes, TransactionCommits
from stanchion.stores.sql.statements import past_shut

_CAREFUL_SECONDS = 0.5
"""So long the careful way is taken at once, after jobs that needed it."""

_IN_VAIN = 3
"""So often a claim looks once more for jobs that others have just taken."""


_CLAIM = text(f"""
    {PICKED}, claimed AS (
        UPDATE stanchion_jobs AS job SET {RESERVED}
        -- By their places, which the locks keep in place: no planner can turn this into a scan of the table.
        WHERE job.ctid = ANY (ARRAY(SELECT place FROM picked WHERE NOT EXISTS (SELECT 1 FROM picked WHERE gated)))
        RETURNING {WHOLE}
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM claimed
        WHERE right(CAST(:token AS text), 1) <> '-' HAVING count(*) > 0
    )
    SELECT * FROM claimed
    -- One row without an id: some of these jobs must pass a gate first.
    UNION ALL SELECT {listed(["NULL"] * len(LIVE_COLUMNS))} WHERE EXISTS (SELECT 1 FROM picked WHERE gated)
""")

_PICK_ASKING = pick_asking(NOW, "true")
_CLAIM_AT_GATES = claim_at_gates(PICKED, RESERVED, LIVE_COLUMNS, WHOLE)
_CLAIM_IN_TURN = claim_in_turn(NOW, NONE_EXPIRED, WHOLE)

_HINDRANCE = text(f"""
    SELECT
        coalesce((
            SELECT paused OR laned OR max_rate IS NOT NULL OR max_running IS NOT NULL
            FROM stanchion_queues WHERE name = :queue
        ), false),
        NOT {NONE_EXPIRED}
""")


class PostgresStore(PostgresAdmitting):
    """The SQL store with push, claim and commit in one statement each, committed by itself."""

    statements_of = PostgresStatements
    flow_end_statements_of = PostgresFlowEndStatements

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._throttled_queues: set[str] = set()
        self._laned_queues: set[str] = set()
        self._contended: dict[str, float] = {}

    def make_commits(self) -> PostgresCommits:
        return PostgresCommits(self.database, TransactionCommits(self.held_jobs, self.jobs, self.flows))

    def make_push(self) -> PostgresPush:
        general = Push(self.database, self.transactions, self.jobs, self.queue_rows, self.inserts)
        return PostgresPush(self.database, self.transactions, self.jobs, self.queue_rows, general)

    def make_outcomes(self, general: Outcomes) -> PostgresOutcomes:
        return PostgresOutcomes(self.database, self.transactions, self.commits, general)  # type: ignore[arg-type]

    def claim_together(self, claim: Claim) -> Claimed:
        if claim.queue in self._laned_queues and claim.lanes is None:
            rows = self._claim_in_turn(claim)
            return self._claim_carefully(claim) if rows is None else Claimed(rows)
        if claim.queue in self._throttled_queues or beside_the_lane(claim):
            return self._claim_carefully(claim)
        if self._contended.get(claim.queue, 0.0) > time.monotonic():
            return self.claim_at_gates(claim)
        rows = self.database.statement(lambda run, again: self._claim_at_once(run, claim, again))
        if rows is None:  # not all of the next ones may run
            self._contended[claim.queue] = time.monotonic() + _CAREFUL_SECONDS
            return self.claim_at_gates(claim)
        if rows:
            return Claimed(rows)
        throttled, expired = self.database.read(lambda run: run.rows(_HINDRANCE, {"queue": claim.queue})[0])
        if throttled:
            self._throttled_queues.add(claim.queue)
        return self._claim_carefully(claim) if throttled or expired else Claimed([])

    def claims_at_once(self, claim: Claim) -> bool:
        """Tell whether one statement is likely to do for this claim."""
        hindered = claim.queue in self._laned_queues | self._throttled_queues | self.gated_queues
        return not hindered and not beside_the_lane(claim) and self._contended.get(claim.queue, 0.0) <= time.monotonic()

    def _claim_at_once(self, run: Runner, claim: Claim, again: bool) -> list[JobRow] | None:
        """Claim the next jobs; None where some have to wait at gates, or must ask there for more than a slot."""
        if (again or claim.repeat) and (held := self.held(run, claim)):
            return held
        params = {"queue": claim.queue, "most": claim.limit, **self.reservation_in(run, claim)}
        if claim.queue not in self.gated_queues:
            rows = run.rows(_CLAIM, params)
            if not rows or rows[0][0] is not None:
                return in_order(rows)
            self.gated_queues.add(claim.queue)
        rows = run.rows(_CLAIM_AT_GATES, params)
        if rows and rows[0][0] is None:
            return None
        jobs = [JobRow(*row[:-1]) for row in rows]
        if not any(map(gated, jobs)):
            self.gated_queues.discard(claim.queue)
        return jobs

    def _claim_in_turn(self, claim: Claim) -> list[JobRow] | None:
        """Claim from the lanes of a queue; None where that takes a transaction."""

        def work(run: Runner, again: bool) -> Taken | None:
            if (again or claim.repeat) and (held := self.held(run, claim)):
                return Taken(held, 0)
            given = {"queue": claim.queue, "most": claim.limit - len(rows), **self.reservation_in(run, claim)}
            return taken(run.rows(_CLAIM_IN_TURN, given))

        rows: dict[str, JobRow] = {}
        vain = 0
        while len(rows) < claim.limit and vain < _IN_VAIN:
            found = self.database.statement(work)
            if found is None:
                return list(rows.values()) or None
            rows |= {row.id: row for row in found.rows}
            if not found.due_lanes:
                break
            vain = 0 if found.rows else vain + 1
        return list(rows.values())

    def reservation_in(self, run: Runner, claim: Claim) -> Params:
        """Return the parameters of the reservation; the queue's own lease is read where it matters."""
        if claim.worker is not None or claim.lease is not None:
            return reservation(claim, QueueSettings(claim.queue))
        return reservation(claim, self.queue_rows.settings(run, claim.queue))

    def _claim_carefully(self, claim: Claim) -> Claimed:
        """Claim in a transaction: free expired leases first, keep to the limits of the queue."""
        settings = self.database.read(lambda run: self.queue_rows.settings(run, claim.queue))
        if not settings.throttled:
            self._throttled_queues.discard(claim.queue)
        if settings.laned and not replace(settings, laned=False).throttled:
            self._laned_queues.add(claim.queue)
        else:
            self._laned_queues.discard(claim.queue)
        return super().claim_together(claim)

    def due_at_gates(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        given: Params = {"queue": queue, "most": limit}
        if search.past is None:
            rows = run.rows(_PICK_ASKING, given)
        else:
            keys = self.dialect.listed(search.past["keys"])
            rows = run.rows(self.dialect.once(_pick_past), {**search.past, "keys": keys, **given})
        search.asking = {str(row[0]): row for row in rows}
        return list(search.asking)


def _pick_past(dialect: Dialect) -> TextClause:
    return pick_asking(NOW, past_shut(dialect))
