"""PostgreSQL's claim from the lanes of a queue, in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from sqlalchemy import TextClause, text

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.sql.engine.runner import Row
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS
from stanchion.stores.sql.lane_statements import LAST_LANE


class Taken(NamedTuple):
    """What one statement took, in the order of the turns, and how many lanes it found with a due job."""

    rows: list[JobRow]
    due_lanes: int


_QUEUED = "queue = :queue AND state = 'queued'"

_HEADS = f"""
    WITH RECURSIVE heads (priority) AS (
        (
            SELECT priority FROM stanchion_jobs
            WHERE {_QUEUED} AND lane = {{lane}} ORDER BY priority DESC LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT priority FROM stanchion_jobs
            WHERE {_QUEUED} AND lane = {{lane}} AND priority < heads.priority ORDER BY priority DESC LIMIT 1
        )
        FROM heads WHERE heads.priority IS NOT NULL
    )
"""


def claim_in_turn(now: str, none_expired: str, columns: str) -> TextClause:
    """Return the statement, which leaves a queue alone that has limits, or while leases have run out."""
    return text(f"""
    WITH RECURSIVE line AS MATERIALIZED (
        -- Whoever waits here reads the lane that the one before has served last. The jobs that it took may still
        -- look queued, until they are locked below; so one who gets less than it wants asks again.
        SELECT last_lane FROM stanchion_queues
        WHERE name = :queue AND laned AND NOT paused AND max_rate IS NULL AND max_running IS NULL AND {none_expired}
        AND set_config('synchronous_commit', 'off', true) IS NOT NULL
        FOR UPDATE
    ), lanes (turn, lane, last, served) AS (
        -- A loose index scan: the lanes in use behind the one served last, then those from the first to it.
        SELECT 1, (
            SELECT lane FROM stanchion_jobs WHERE {_QUEUED} AND lane > line.last_lane ORDER BY lane LIMIT 1
        ), {LAST_LANE + 1}, last_lane
        FROM line
        UNION ALL
        SELECT turn + 1, (
            SELECT job.lane FROM stanchion_jobs AS job
            WHERE {_QUEUED} AND job.lane > coalesce(lanes.lane, -1)
                AND job.lane <= CASE WHEN lanes.lane IS NULL THEN served ELSE last END
            ORDER BY job.lane LIMIT 1
        ), CASE WHEN lanes.lane IS NULL THEN served ELSE last END, served
        FROM lanes WHERE lanes.lane IS NOT NULL OR last > served
    ), due AS MATERIALIZED (
        SELECT turn, lanes.lane FROM lanes CROSS JOIN LATERAL (
            {_HEADS.format(lane="lanes.lane")}
            SELECT 1 FROM heads WHERE heads.priority IS NOT NULL AND (
                SELECT run_at FROM stanchion_jobs
                WHERE {_QUEUED} AND lane = lanes.lane AND priority = heads.priority ORDER BY run_at LIMIT 1
            ) <= {now}
            LIMIT 1
        ) AS any_due
        WHERE lanes.lane IS NOT NULL
        LIMIT CAST(:most AS BIGINT)
    ), shares AS MATERIALIZED (
        SELECT turn, lane, CAST(:most AS BIGINT) / count(*) OVER () + CAST(
            row_number() OVER (ORDER BY turn) <= mod(CAST(:most AS BIGINT), count(*) OVER ()) AS INT
        ) AS share
        FROM due
    ), picked AS MATERIALIZED (
        SELECT turn, shares.lane, job.* FROM shares CROSS JOIN LATERAL (
            {_HEADS.format(lane="shares.lane")}
            SELECT one.* FROM heads CROSS JOIN LATERAL (
                SELECT ctid AS place, priority, run_at, id, order_key IS NOT NULL OR limits IS NOT NULL AS gated
                FROM stanchion_jobs
                WHERE {_QUEUED} AND lane = shares.lane AND priority = heads.priority AND run_at <= {now}
                ORDER BY run_at, id LIMIT shares.share FOR UPDATE SKIP LOCKED
            ) AS one
            WHERE heads.priority IS NOT NULL
            LIMIT shares.share
        ) AS job
    ), taken AS (
        SELECT turn, lane, place, row_number() OVER (PARTITION BY turn ORDER BY priority DESC, run_at, id) AS nth
        FROM picked WHERE NOT EXISTS (SELECT 1 FROM picked WHERE gated)
    ), claimed AS (
        UPDATE stanchion_jobs AS job
        SET state = 'running', attempts = attempts + 1, token = :token, worker = :worker, progress = NULL,
            lease_until = CASE WHEN CAST(:worker_holds AS boolean) THEN NULL
                ELSE {now} + CAST(:lease_micros AS BIGINT) END,
            started_at = {now}
        WHERE job.ctid = ANY (ARRAY(SELECT place FROM taken))
        RETURNING {columns}
    ), served AS (
        UPDATE stanchion_queues SET last_lane = (SELECT lane FROM taken ORDER BY nth DESC, turn DESC LIMIT 1)
        WHERE name = :queue AND EXISTS (SELECT 1 FROM taken)
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM claimed
        WHERE right(CAST(:token AS text), 1) <> '-' HAVING count(*) > 0
    )
    SELECT claimed.*, last_lane, (SELECT count(*) FROM due), EXISTS (SELECT 1 FROM picked WHERE gated)
    FROM line LEFT JOIN claimed ON true
    """)


def taken(rows: Sequence[Row]) -> Taken | None:
    """Return what the statement took; None where it left the queue alone, or met jobs that must pass a gate first."""
    if not rows or rows[0][-1]:
        return None
    *_, served, due_lanes, _gated = rows[0]
    jobs = [JobRow(*row[: len(LIVE_COLUMNS)]) for row in rows if row[0] is not None]
    return Taken(_in_turn(jobs, served), due_lanes)


def _in_turn(jobs: Iterable[JobRow], served: int) -> list[JobRow]:
    """Put claimed jobs into the order of their turns, after the lane that was served before them."""
    lanes: dict[int, list[JobRow]] = {}
    for job in sorted(jobs, key=lambda job: (job.lane <= served, job.lane, -job.priority, job.run_at, job.id)):
        lanes.setdefault(job.lane, []).append(job)
    return [job for turn in zip_longest(*lanes.values()) for job in turn if job is not None]
