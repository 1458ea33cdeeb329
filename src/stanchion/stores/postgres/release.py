"""PostgreSQL's own way to pass on slots that come free: the locks of their gates, and all else in one statement.

Everything that several want is between these locks and the commit; so they are sent together with it, and no gate is
locked while anything goes over the network.
"""

from __future__ import annotations

import json

from sqlalchemy import text

from stanchion.stores.rules.slots import HOLDER_BOOST, order_of, semaphore_of
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.granting import Grants
from stanchion.stores.sql.slots import SlotRows

# It begins when the gates are locked, and so sees who waits there. Those whom others have locked are passed over.
_PASS_ON = text(f"""
    WITH freed AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(CAST(:freed AS jsonb)) AS freed (name text, n int, queue text, order_key text)
    ), gate AS MATERIALIZED (
        SELECT freed.*, gate.waited, greatest(coalesce(gate.capacity, 1) - gate.used + n, 0) AS free
        FROM freed JOIN stanchion_gates AS gate USING (name)
        WHERE gate.name = ANY (ARRAY(SELECT name FROM freed))
    ), lined AS MATERIALIZED (
        SELECT gate.name, job.id, job.queue FROM gate CROSS JOIN LATERAL (
            SELECT id, queue FROM stanchion_jobs WHERE waits_for = gate.name
            ORDER BY waits_since, id LIMIT gate.free FOR UPDATE SKIP LOCKED
        ) AS job
        WHERE gate.waited AND gate.order_key IS NULL
    ), first AS MATERIALIZED (
        SELECT gate.name, job.id, job.waits_for FROM gate CROSS JOIN LATERAL (
            SELECT id, waits_for FROM stanchion_jobs WHERE queue = gate.queue AND order_key = gate.order_key
            ORDER BY enqueued_at, id LIMIT 1
        ) AS job
        WHERE gate.waited AND gate.order_key IS NOT NULL AND gate.free > 0
    ), keyed AS MATERIALIZED (
        SELECT first.name, job.id, job.queue FROM first CROSS JOIN LATERAL (
            SELECT id, queue FROM stanchion_jobs
            WHERE id = first.id AND waits_for = first.name FOR UPDATE SKIP LOCKED
        ) AS job
        WHERE first.waits_for = first.name
    ), next AS MATERIALIZED (
        SELECT * FROM lined UNION ALL SELECT * FROM keyed
    ), granted AS (
        UPDATE stanchion_jobs
        SET state = 'queued', held = held + 1, waits_for = NULL, waits_since = NULL,
            priority = priority + CASE WHEN waits_for LIKE 's:%' THEN {HOLDER_BOOST} ELSE 0 END
        WHERE id = ANY (ARRAY(SELECT id FROM next))
    ), counted AS MATERIALIZED (
        SELECT gate.*, (SELECT count(*) FROM next WHERE next.name = gate.name) AS given, first.waits_for AS first_waits,
            gate.order_key IS NOT NULL AND gate.free > 0 AND first.name IS NULL AS unused
        FROM gate LEFT JOIN first USING (name)
    ), outcome AS MATERIALIZED (
        SELECT counted.*, CASE
            WHEN NOT waited OR given >= free THEN false
            WHEN order_key IS NOT NULL THEN first_waits IS NOT NULL AND first_waits = name
            ELSE EXISTS (
                SELECT 1 FROM stanchion_jobs WHERE waits_for = counted.name
                    AND id <> ALL (ARRAY(SELECT id FROM lined WHERE lined.name = counted.name))
            )
        END AS passed_over
        FROM counted
    ), used AS (
        UPDATE stanchion_gates AS gate
        SET used = gate.used - n + given,
            waited = gate.waited AND (order_key IS NOT NULL OR given >= free OR passed_over)
        FROM outcome
        WHERE gate.name = ANY (ARRAY(SELECT name FROM outcome WHERE NOT unused)) AND gate.name = outcome.name
    ), dropped AS (
        -- The row of an order key is there for as long as somebody has the gate, or may wait at it.
        DELETE FROM stanchion_gates WHERE name = ANY (ARRAY(SELECT name FROM outcome WHERE unused))
    )
    SELECT DISTINCT NULL, queue FROM next UNION ALL SELECT name, NULL FROM outcome WHERE passed_over
""")


class PostgresGrants:
    """Passes on slots by one round trip, the last one of a transaction."""

    def __init__(self, slots: SlotRows, general: Grants) -> None:
        self._slots, self._general = slots, general

    def pass_on(self, run: Runner) -> None:
        if run.joined or not run.freed:
            self._general.pass_on(run)
            return
        self._slots.make(run, run.freed)
        pass_on = _PASS_ON, {"freed": json.dumps([_freed(*one) for one in run.freed.items()], ensure_ascii=False)}
        for passed_over, queue in run.all_rows([pass_on], last=True)[0]:
            if queue is None:
                run.passed_over.add(passed_over)
            else:
                run.woken.add(queue)


def _freed(gate: str, slots: int) -> dict[str, str | int]:
    if semaphore_of(gate) is not None:
        return {"name": gate, "n": slots}
    queue, key = order_of(gate)
    return {"name": gate, "n": slots, "queue": queue, "order_key": key}
