"""How PostgreSQL picks and locks the next due jobs, for every statement that does."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.sql.engine.schema import LIVE_COLUMNS

NOW = "(CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT) + CAST(:clock_offset AS BIGINT))"
ONCE = f"(SELECT {NOW})"
"""The same for many rows, for which the clock is read once. It says nothing to who plans the search for them."""


def listed(names: Sequence[str], **instead: str) -> str:
    """Return column names for a list of columns or values, some replaced."""
    return ", ".join(instead.get(name, name) for name in names)


# The first entry of the index of leases; of any queue, as a queue of its own would take a scan of what runs in it.
NONE_EXPIRED = f"coalesce((SELECT min(lease_until) FROM stanchion_jobs WHERE lease_until IS NOT NULL) > {NOW}, true)"


def picked(columns: str) -> str:
    """Return the part of a statement that locks the next due jobs, and reads these columns of them, in order.

    It picks none from a queue that has limits, nor while leases have run out.
    """
    return f"""
        WITH RECURSIVE heads (priority) AS (
            (
                SELECT priority FROM stanchion_jobs
                WHERE queue = :queue AND lane = 0 AND state = 'queued' AND NOT EXISTS (
                    SELECT 1 FROM stanchion_queues
                    WHERE name = :queue AND (paused OR laned OR max_rate IS NOT NULL OR max_running IS NOT NULL)
                ) AND {NONE_EXPIRED}
                -- A claim need not wait for the disk: one that a crash of the server undoes leaves the job ready,
                -- and its token refuses whoever had it. What is committed later makes it durable too.
                AND set_config('synchronous_commit', 'off', true) IS NOT NULL
                ORDER BY priority DESC LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT priority FROM stanchion_jobs
                WHERE queue = :queue AND lane = 0 AND state = 'queued' AND priority < heads.priority
                ORDER BY priority DESC LIMIT 1
            )
            FROM heads WHERE heads.priority IS NOT NULL
        ), picked AS MATERIALIZED (
            -- The heads come highest first, and the limit stops before a lower one is looked at, let alone locked.
            SELECT due.* FROM heads CROSS JOIN LATERAL (
                SELECT {columns}
                FROM stanchion_jobs
                WHERE queue = :queue AND lane = 0 AND state = 'queued'
                    AND priority = heads.priority AND run_at <= {NOW}
                ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
            ) AS due
            WHERE heads.priority IS NOT NULL
            LIMIT :most
        )
    """


PICKED = picked("ctid AS place, id, order_key, limits, held, order_key IS NOT NULL OR limits IS NOT NULL AS gated")

RESERVED = f"""
    state = 'running', attempts = attempts + 1, token = :token, worker = :worker, progress = NULL,
    lease_until = CASE WHEN CAST(:worker_holds AS boolean) THEN NULL
        ELSE {ONCE} + CAST(:lease_micros AS BIGINT) END,
    started_at = {ONCE}
"""

WHOLE = listed(LIVE_COLUMNS, id="CAST(id AS text)", origin="CAST(origin AS text)")
