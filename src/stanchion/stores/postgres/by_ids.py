"""PostgreSQL's claim by ids, and its push of jobs that are to run: one statement each, for jobs that need no slot.

Both fit a queue that is neither paused nor bounded. If the claim meets a job that needs a slot, or another queue, it
changes nothing and says so, and the transactional route is taken. The push stores such jobs as queued; it is taken for
jobs without slots and keys only.
"""

from __future__ import annotations

import json
from typing import Protocol

from sqlalchemy import text

from stanchion.stores.fields import queues
from stanchion.stores.fields.sql import begun, changes
from stanchion.stores.postgres.pick import AS_TEXT, NOW, RESERVES, listed
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, row_from
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.claims import in_claim_order
from stanchion.stores.sql.claims.reserve import Reservations, lease_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS
from stanchion.stores.sql.rows.queues import QueueRows

IN_TIME = f"(CAST(:not_after AS bigint) IS NULL OR {NOW} <= CAST(:not_after AS bigint))"

BOUNDED = f"""EXISTS (
    SELECT 1 FROM stanchion_queues
    WHERE name = :of_queue AND (paused OR {queues.BOUNDED})
)"""
"""The queue's settings forbid starting the named jobs without reading its other jobs."""

_WHOLE = listed(
    CLAIMED_COLUMNS,
    **{name: AS_TEXT.get(name, f"job.{name}").replace("CAST(", "CAST(job.") for name in CLAIMED_COLUMNS},
)
_LEASE = "CASE WHEN named.worker IS NULL THEN (SELECT now FROM clock) + CAST(:lease_micros AS bigint) END"
_CLAIM = text(f"""
    WITH clock AS MATERIALIZED (
        -- As any claim, it need not wait for the disk.
        SELECT {NOW} AS now, {BOUNDED} AS bounded, set_config('synchronous_commit', 'off', true)
    ), named AS MATERIALIZED (
        SELECT CAST(value ->> 0 AS uuid) AS id, value ->> 1 AS worker
        FROM jsonb_array_elements(CAST(:named AS jsonb)) AS pairs (value)
    ), picked AS MATERIALIZED (
        -- The spelling of the state keeps planners from the partial indexes of queued jobs, which may be long.
        SELECT ctid AS place, order_key IS NOT NULL OR limits IS NOT NULL AS needs_slot FROM stanchion_jobs
        WHERE queue = :of_queue AND id = ANY (ARRAY(SELECT id FROM named)) AND state IN ('queued', '')
            AND run_at <= {NOW} AND {IN_TIME} AND NOT (SELECT bounded FROM clock)
        FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE stanchion_jobs AS job
        SET {changes(begun(_LEASE, "(SELECT now FROM clock)", "coalesce(named.worker, CAST(:holder AS text))"))}
        FROM named
        WHERE job.queue = :of_queue AND job.id = named.id AND job.ctid = ANY (ARRAY(
            SELECT place FROM picked WHERE NOT EXISTS (SELECT 1 FROM picked WHERE needs_slot)
        ))
        RETURNING {_WHOLE}
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT :of_queue, 'reserved', count(*) FROM claimed
        WHERE {RESERVES} HAVING count(*) > 0
    )
    SELECT claimed.*, elsewhere FROM (
        SELECT bounded OR EXISTS (SELECT 1 FROM picked WHERE needs_slot) AS elsewhere FROM clock
    ) AS answer LEFT JOIN claimed ON true
""")


class ClaimsNamed(Protocol):
    """Claims the jobs that a claim names, whatever they need."""

    def claim(self, claim: Claim) -> Claimed:
        """Reserve them."""


class PostgresByIds:
    """Claims by ids."""

    def __init__(self, db: Database, queues: QueueRows, reservations: Reservations, general: ClaimsNamed) -> None:
        self._db, self._queues, self._reservations, self._general = db, queues, reservations, general

    def claim(self, claim: Claim) -> Claimed:
        """Reserve the jobs that a claim names."""
        if claim.repeat or claim.limit < len(claim.ids):
            return self._general.claim(claim)

        def work(run: Runner, again: bool) -> Claimed | None:
            if again and (held := self._reservations.held(run, claim)):
                return Claimed(in_claim_order(held, claim))
            rows = run.rows(_CLAIM, self.wanted(run, claim))
            if rows[0][0] is not None:
                return Claimed(in_claim_order([row_from(row[:-1]) for row in rows], claim))
            return None if rows[0][-1] else Claimed([])

        return self._db.statement(work) or self._general.claim(claim)

    def wanted(self, run: Runner, claim: Claim) -> Params:
        """Return the parameters of a claim; the lease of the queue is read only if it is needed."""
        workers = claim.workers
        settings = QueueSettings(claim.queue)
        if claim.lease is None and not all(workers.values()):
            settings = self._queues.settings(run, claim.queue)
        return {
            "of_queue": claim.queue,
            "named": json.dumps([(job, worker or None) for job, worker in workers.items()]),
            "token": claim.token,
            "delivery": claim.delivery,
            "holder": claim.holder,
            "lease_micros": int(lease_of(claim, settings) * SECOND),
            "not_after": claim.not_after,
        }
