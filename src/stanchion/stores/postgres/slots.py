"""PostgreSQL's claim and commit of jobs that hold semaphores, by one statement each.

They fit if no job has to wait: a claim whose jobs all get their slots, a commit of slots without waiters. Each locks
the rows of the slots before it reads them, and so sees them as they are, regardless of its snapshot. It can't see
waiters like that, so the row has a `waited` flag. If the statement changes nothing, the transactional route is taken.
"""

from __future__ import annotations

from sqlalchemy import TextClause, text

from stanchion.stores.postgres.pick import RESERVES
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.sql.claims.admit import ASKING

SEMAPHORES = f"kind = '{SEMAPHORE}' AND queue = ''"
"""The condition that a row of stanchion_slots is a semaphore."""

_HOLDS = "jsonb_array_elements_text(CAST({job}.limits AS jsonb) -> 'hold') WITH ORDINALITY AS slot (name, nth)"


def pick_asking(now: str, condition: str) -> TextClause:
    """Return the statement that locks the next due jobs that meet a condition, and reads what slots they need."""
    columns = ", ".join(ASKING)
    return text(f"""
    WITH RECURSIVE heads (rank) AS (
        (
            SELECT rank FROM stanchion_jobs
            WHERE queue = :queue AND lane = {UNLANED} AND state = 'queued' AND rank >= :min_rank
            ORDER BY rank DESC LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT rank FROM stanchion_jobs
            WHERE queue = :queue AND lane = {UNLANED} AND state = 'queued' AND rank < heads.rank
                AND rank >= :min_rank
            ORDER BY rank DESC LIMIT 1
        )
        FROM heads WHERE heads.rank IS NOT NULL
    ), picked AS MATERIALIZED (
        SELECT due.* FROM heads CROSS JOIN LATERAL (
            SELECT id, {columns} FROM stanchion_jobs
            WHERE queue = :queue AND lane = {UNLANED} AND state = 'queued'
                AND rank = heads.rank AND run_at <= {now} AND {condition}
            ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
        ) AS due
        WHERE heads.rank IS NOT NULL
        LIMIT :most
    )
    SELECT CAST(id AS text), {columns} FROM picked ORDER BY rank DESC, run_at, id
    """)


def claim_slots(picked: str, reserved: str, returning: str, shape: str) -> TextClause:
    """Return the statement that reserves the next due jobs if all of them get their slots.

    `picked`: the CTEs that pick the jobs; `reserved`: the changes of a reserved job, besides its slots; `shape`: the
    expression for the reason why there are none.
    """
    return text(f"""
    {picked}, wanted AS MATERIALIZED (
        SELECT slot.name, count(*) AS n FROM picked CROSS JOIN LATERAL {_HOLDS.format(job="picked")}
        WHERE slot.nth > picked.slots_held GROUP BY 1
    ), locked AS MATERIALIZED (
        SELECT name, coalesce(capacity, 1) - used AS free FROM stanchion_slots
        WHERE {SEMAPHORES} AND name = ANY (ARRAY(SELECT name FROM wanted))
        ORDER BY name COLLATE "C" FOR UPDATE
    ), allowed AS MATERIALIZED (
        SELECT
            NOT EXISTS (SELECT 1 FROM wanted LEFT JOIN locked USING (name) WHERE coalesce(free, 0) < n)
            AND NOT EXISTS (SELECT 1 FROM picked WHERE order_key IS NOT NULL OR CAST(limits AS jsonb) ? 'rate')
            AS all_of_them
    ), used AS (
        UPDATE stanchion_slots AS slot SET used = used + n FROM wanted
        WHERE {SEMAPHORES} AND slot.name = ANY (ARRAY(SELECT name FROM wanted WHERE (SELECT all_of_them FROM allowed)))
            AND slot.name = wanted.name
    ), claimed AS (
        UPDATE stanchion_jobs AS job
        SET {reserved},
            slots_held = coalesce(jsonb_array_length(CAST(limits AS jsonb) -> 'hold'), 0)
        -- By id, not by position: a job that was changed since the snapshot needs its slots too.
        WHERE job.queue = :queue AND job.id = ANY (ARRAY(SELECT id FROM picked WHERE (SELECT all_of_them FROM allowed)))
        RETURNING {returning}
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM claimed
        WHERE {RESERVES} HAVING count(*) > 0
    ), places AS (
        SELECT CAST(id AS text) AS id, row_number() OVER () AS nth FROM picked
    )
    SELECT claimed.*, shape
    -- One row without an id: the shape of the queue if no job is due, NULL if some due jobs may not run.
    FROM (SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM picked) THEN {shape} END AS shape) AS answer
    LEFT JOIN (claimed JOIN places USING (id)) ON true
    ORDER BY nth
    """)
