"""PostgreSQL's claim and commit of jobs that hold semaphores, in one statement each.

They serve where nobody has to wait: a claim whose jobs all get their slots, a commit of slots that nobody waits for.
Each locks the rows of the gates before it looks at them, and so sees them as they are, whatever its snapshot; but who
waits at a gate it can't see like that, hence the mark in the row. Where they do nothing, the careful way is taken.
"""

from __future__ import annotations

from sqlalchemy import TextClause, text

from stanchion.stores.rules.slots import HOLDER_BOOST
from stanchion.stores.sql.gate_statements import ASKING

_HOLDS = "jsonb_array_elements_text(CAST({job}.limits AS jsonb) -> 'hold') WITH ORDINALITY AS gate (name, nth)"


def pick_asking(now: str, condition: str) -> TextClause:
    """Return the statement that locks the next due jobs that meet a condition, and reads what they need at gates."""
    columns = ", ".join(ASKING)
    return text(f"""
    WITH RECURSIVE heads (priority) AS (
        (
            SELECT priority FROM stanchion_jobs
            WHERE queue = :queue AND lane = 0 AND state = 'queued' ORDER BY priority DESC LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT priority FROM stanchion_jobs
            WHERE queue = :queue AND lane = 0 AND state = 'queued' AND priority < heads.priority
            ORDER BY priority DESC LIMIT 1
        )
        FROM heads WHERE heads.priority IS NOT NULL
    ), picked AS MATERIALIZED (
        SELECT due.* FROM heads CROSS JOIN LATERAL (
            SELECT id, {columns} FROM stanchion_jobs
            WHERE queue = :queue AND lane = 0 AND state = 'queued'
                AND priority = heads.priority AND run_at <= {now} AND {condition}
            ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
        ) AS due
        WHERE heads.priority IS NOT NULL
        LIMIT :most
    )
    SELECT CAST(id AS text), {columns} FROM picked ORDER BY priority DESC, run_at, id
    """)


def claim_at_gates(picked: str, reserved: str, columns: tuple[str, ...], returning: str) -> TextClause:
    """Return the statement; `picked` picks the jobs, `reserved` is what becomes of each, besides its gates."""
    return text(f"""
    {picked}, wanted AS MATERIALIZED (
        SELECT 's:' || gate.name AS name, count(*) AS n FROM picked CROSS JOIN LATERAL {_HOLDS.format(job="picked")}
        WHERE gate.nth > picked.held GROUP BY 1
    ), locked AS MATERIALIZED (
        SELECT name, coalesce(capacity, 1) - used AS free FROM stanchion_gates
        WHERE name = ANY (ARRAY(SELECT name FROM wanted)) ORDER BY name FOR UPDATE
    ), allowed AS MATERIALIZED (
        SELECT
            NOT EXISTS (SELECT 1 FROM wanted LEFT JOIN locked USING (name) WHERE coalesce(free, 0) < n)
            AND NOT EXISTS (SELECT 1 FROM picked WHERE order_key IS NOT NULL OR CAST(limits AS jsonb) ? 'rate')
            AS all_of_them
    ), used AS (
        UPDATE stanchion_gates AS gate SET used = used + n FROM wanted
        WHERE gate.name = ANY (ARRAY(SELECT name FROM wanted WHERE (SELECT all_of_them FROM allowed)))
            AND gate.name = wanted.name
    ), claimed AS (
        UPDATE stanchion_jobs AS job
        SET {reserved},
            held = coalesce(jsonb_array_length(CAST(limits AS jsonb) -> 'hold'), 0),
            permit = CASE WHEN limits IS NOT NULL THEN coalesce(permit, :token) END,
            priority = CASE WHEN priority > {HOLDER_BOOST // 2} THEN priority - {HOLDER_BOOST} ELSE priority END
        -- By their ids, and not their places: one that was changed since the snapshot has its slots as well.
        WHERE job.id = ANY (ARRAY(SELECT id FROM picked WHERE (SELECT all_of_them FROM allowed)))
        RETURNING {returning}
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM claimed
        WHERE right(CAST(:token AS text), 1) <> '-' HAVING count(*) > 0
    ), places AS (
        SELECT CAST(id AS text) AS id, row_number() OVER () AS nth FROM picked
    )
    SELECT * FROM (
        SELECT claimed.*, nth FROM claimed JOIN places USING (id)
        UNION ALL SELECT {", ".join(["NULL"] * len(columns))}, 0
        WHERE NOT (SELECT all_of_them FROM allowed)
    ) AS answer ORDER BY nth
    """)
