"""PostgreSQL's claim from the lanes of a queue, by one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from sqlalchemy import text

from stanchion.stores.fields.queues import BOUNDED
from stanchion.stores.postgres.pick import CLOCK, ITEMS, NEEDS_SLOT, NOW, RESERVED, RESERVES, WHOLE
from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.sql.claims.lanes import LAST_LANE
from stanchion.stores.sql.engine.runner import Row
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS
from stanchion.stores.sql.rows.contents import row_from


class Taken(NamedTuple):
    """The jobs that one statement took, in round-robin order, and the number of lanes with a due job that it found."""

    rows: list[JobRow]
    due_lanes: int


_QUEUED = "queue = :queue AND state = 'queued'"

_HEADS = f"""
    WITH RECURSIVE heads (rank) AS (
        SELECT max(rank) FROM stanchion_jobs WHERE {_QUEUED} AND lane = {{lane}} AND rank >= :min_rank
        UNION ALL
        SELECT (
            SELECT max(rank) FROM stanchion_jobs
            WHERE {_QUEUED} AND lane = {{lane}} AND rank < heads.rank AND rank >= :min_rank
        )
        FROM heads WHERE heads.rank IS NOT NULL
    )
"""


CLAIM_LANES = text(f"""
    WITH RECURSIVE {CLOCK}, locked_queue AS MATERIALIZED (
        -- A claim that waits here reads the lane that the previous one served last. The previous one's jobs may still
        -- look queued, until they are locked below; so a claim that gets fewer jobs than it wants asks again.
        SELECT last_lane FROM stanchion_queues
        WHERE name = :queue AND uses_lanes AND NOT (paused OR {BOUNDED})
        AND (SELECT none_expired FROM clock) AND set_config('synchronous_commit', 'off', true) IS NOT NULL
        FOR UPDATE
    ), lanes (lane_nth, lane, last, served) AS (
        -- A loose index scan: the lanes in use behind the one served last, then the lanes from the first up to it.
        SELECT 1, (
            SELECT lane FROM stanchion_jobs WHERE {_QUEUED} AND lane > locked_queue.last_lane ORDER BY lane LIMIT 1
        ), {LAST_LANE + 1}, last_lane
        FROM locked_queue
        UNION ALL
        SELECT lane_nth + 1, (
            SELECT job.lane FROM stanchion_jobs AS job
            WHERE {_QUEUED} AND job.lane > coalesce(lanes.lane, {UNLANED - 1})
                AND job.lane <= CASE WHEN lanes.lane IS NULL THEN served ELSE last END
            ORDER BY job.lane LIMIT 1
        ), CASE WHEN lanes.lane IS NULL THEN served ELSE last END, served
        FROM lanes WHERE lanes.lane IS NOT NULL OR last > served
    ), due AS MATERIALIZED (
        SELECT lane_nth, lanes.lane FROM lanes CROSS JOIN LATERAL (
            {_HEADS.format(lane="lanes.lane")}
            SELECT 1 FROM heads WHERE heads.rank IS NOT NULL AND (
                SELECT run_at FROM stanchion_jobs
                WHERE {_QUEUED} AND lane = lanes.lane AND rank = heads.rank ORDER BY run_at LIMIT 1
            ) <= (SELECT now FROM clock)
            LIMIT 1
        ) AS any_due
        WHERE lanes.lane IS NOT NULL
        LIMIT CAST(:most AS BIGINT)
    ), shares AS MATERIALIZED (
        SELECT lane_nth, lane, most / n + CAST(row_number() OVER (ORDER BY lane_nth) <= mod(most, n) AS INT) AS share
        FROM due CROSS JOIN (SELECT count(*) AS n, CAST(:most AS BIGINT) AS most FROM due) AS all_due
    ), picked AS MATERIALIZED (
        SELECT lane_nth, shares.lane, job.* FROM shares CROSS JOIN LATERAL (
            {_HEADS.format(lane="shares.lane")}
            SELECT one.* FROM heads CROSS JOIN LATERAL (
                SELECT ctid AS place, rank, run_at, id, {NEEDS_SLOT}
                FROM stanchion_jobs
                WHERE {_QUEUED} AND lane = shares.lane AND rank = heads.rank AND run_at <= {NOW}
                ORDER BY run_at, id LIMIT shares.share FOR UPDATE SKIP LOCKED
            ) AS one
            WHERE heads.rank IS NOT NULL
            LIMIT shares.share
        ) AS job
    ), taken AS (
        SELECT lane_nth, lane, place, row_number() OVER (PARTITION BY lane_nth ORDER BY rank DESC, run_at, id) AS nth
        FROM picked WHERE NOT EXISTS (SELECT 1 FROM picked WHERE needs_slot)
    ), claimed AS (
        UPDATE stanchion_jobs AS job
        SET {RESERVED}
        WHERE job.queue = :queue AND job.ctid = ANY (ARRAY(SELECT place FROM taken))
        RETURNING {WHOLE}
    ), served AS (
        UPDATE stanchion_queues SET last_lane = (SELECT lane FROM taken ORDER BY nth DESC, lane_nth DESC LIMIT 1)
        WHERE name = :queue AND EXISTS (SELECT 1 FROM taken)
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT :queue, 'reserved', {ITEMS} FROM claimed
        WHERE {RESERVES} HAVING count(*) > 0
    )
    SELECT claimed.*, last_lane, (SELECT count(*) FROM due), EXISTS (SELECT 1 FROM picked WHERE needs_slot)
    FROM locked_queue LEFT JOIN claimed ON true
    """)
"""Returns no row, and changes nothing, if the queue has limits or leases have expired."""


def taken(rows: Sequence[Row]) -> Taken | None:
    """Return the jobs taken by the statement; None if limits, expired leases or needed slots prevented it."""
    if not rows or rows[0][-1]:
        return None
    *_, served, due_lanes, _needs_slot = rows[0]
    jobs = [row_from(row[: len(CLAIMED_COLUMNS)]) for row in rows if row[0] is not None]
    return Taken(_round_robin(jobs, served), due_lanes)


def _round_robin(jobs: Iterable[JobRow], served: int) -> list[JobRow]:
    """Sort claimed jobs into round-robin order, starting after the lane that was served before them."""
    lanes: dict[int, list[JobRow]] = {}
    for job in sorted(jobs, key=lambda job: (job.lane <= served, job.lane, -job.rank, job.run_at, job.id)):
        lanes.setdefault(job.lane, []).append(job)
    return [job for round_ in zip_longest(*lanes.values()) for job in round_ if job is not None]
