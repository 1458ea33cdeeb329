"""PostgreSQL's grants of freed slots: one statement locks the slots, a second does all else.

Both are sent together with the commit, so that no contended slot is locked during a round trip.
"""

from __future__ import annotations

import json

from sqlalchemy import Executable, text

from stanchion.stores.fields.jobs import WAITS
from stanchion.stores.fields.sql import STOPS_WAITING
from stanchion.stores.postgres.pick import NOW, slots_at, slots_read
from stanchion.stores.records.slots import ORDER, SEMAPHORE, Slot
from stanchion.stores.rules.capacity.slots import HOLDER_BOOST
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.grants import Grants
from stanchion.stores.sql.rows.past_waits import with_wait
from stanchion.stores.sql.rows.slots import SlotRows

_WAITS = f"({', '.join(WAITS)})"
# It starts after the slots are locked, and so sees their waiters. Waiters that others have locked are skipped.
_PASS_ON = f"""
    WITH freed AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(CAST(:freed AS jsonb)) AS freed (kind text, queue text, name text, n int)
    ), slot AS MATERIALIZED (
        SELECT given.*, slot.waited, greatest(coalesce(slot.capacity, 1) - slot.used + n, 0) AS free
        FROM {slots_read("freed AS given", "slot.waited, slot.capacity, slot.used")}
    ), waiters AS MATERIALIZED (
        SELECT slot.kind, slot.queue, slot.name, job.id, job.queue AS woken FROM slot CROSS JOIN LATERAL (
            SELECT id, queue FROM stanchion_jobs WHERE {_WAITS} = ('{SEMAPHORE}', '', slot.name)
            ORDER BY waits_since, id LIMIT slot.free FOR UPDATE SKIP LOCKED
        ) AS job
        WHERE slot.waited AND slot.kind = '{SEMAPHORE}'
    ), first AS MATERIALIZED (
        SELECT slot.kind, slot.queue, slot.name, job.id, job.waits FROM slot CROSS JOIN LATERAL (
            SELECT id, coalesce(waits_kind = '{ORDER}', false) AS waits FROM stanchion_jobs
            WHERE queue = slot.queue AND order_key = slot.name
            ORDER BY enqueued_at, id LIMIT 1
        ) AS job
        WHERE slot.waited AND slot.kind = '{ORDER}' AND slot.free > 0
    ), keyed AS MATERIALIZED (
        SELECT first.kind, first.queue, first.name, job.id, first.queue AS woken FROM first CROSS JOIN LATERAL (
            -- In a form that no planner can take for a range of the index of waiting jobs, with the whole line.
            SELECT id FROM stanchion_jobs WHERE id = first.id
                AND {_WAITS} IS NOT DISTINCT FROM ('{ORDER}', first.queue, first.name)
            FOR UPDATE SKIP LOCKED
        ) AS job
        WHERE first.waits
    ), next AS MATERIALIZED (
        SELECT * FROM waiters UNION ALL SELECT * FROM keyed
    ), granted AS (
        UPDATE stanchion_jobs
        SET {{with_wait}}, state = 'queued', slots_held = slots_held + 1, {STOPS_WAITING},
            rank = priority + CASE WHEN waits_kind = '{SEMAPHORE}' THEN {HOLDER_BOOST} ELSE 0 END
        WHERE id = ANY (ARRAY(SELECT id FROM next)) AND queue = ANY (ARRAY(SELECT woken FROM next))
    ), counted AS MATERIALIZED (
        SELECT slot.*, (
                SELECT count(*) FROM next
                WHERE (next.kind, next.queue, next.name) = (slot.kind, slot.queue, slot.name)
            ) AS given,
            first.waits AS first_waits, slot.kind = '{ORDER}' AND slot.free > 0 AND first.name IS NULL AS unused
        FROM slot LEFT JOIN first USING (kind, queue, name)
    ), outcome AS MATERIALIZED (
        SELECT counted.*, CASE
            WHEN NOT waited OR given >= free THEN false
            WHEN kind = '{ORDER}' THEN coalesce(first_waits, false)
            ELSE EXISTS (
                SELECT 1 FROM stanchion_jobs
                WHERE {_WAITS} = ('{SEMAPHORE}', '', counted.name)
                    AND id <> ALL (ARRAY(SELECT id FROM waiters WHERE waiters.name = counted.name))
            )
        END AS passed_over
        FROM counted
    ), used AS (
        UPDATE stanchion_slots AS slot
        SET used = slot.used - n + given,
            waited = slot.waited AND (slot.kind = '{ORDER}' OR given >= free OR passed_over)
        FROM outcome
        WHERE slot.{slots_at("outcome AS given")} AND NOT unused
            AND (slot.kind, slot.queue, slot.name) = (outcome.kind, outcome.queue, outcome.name)
    ), dropped AS (
        -- The row of an order key exists as long as a job holds the key, or may wait for it.
        DELETE FROM stanchion_slots WHERE {slots_at("(SELECT * FROM outcome WHERE unused) AS given")}
    )
    SELECT DISTINCT woken, NULL, NULL, NULL FROM next
    UNION ALL SELECT NULL, kind, queue, name FROM outcome WHERE passed_over
"""


def _pass_on(dialect: Dialect) -> Executable:
    return text(_PASS_ON.format(with_wait=with_wait(dialect, NOW)))


class PostgresGrants:
    """Passes on freed slots in one round trip, the last one of a transaction."""

    def __init__(self, db: Database, slots: SlotRows) -> None:
        self._slots, self._general = slots, Grants(db, slots)
        self._pass_on = db.dialect.once(_pass_on)

    def pass_on(self, run: Runner) -> None:
        if run.joined or not run.freed:
            self._general.pass_on(run)
            return
        self._slots.make(run, run.freed)
        freed = [{**slot._asdict(), "n": n} for slot, n in run.freed.items()]
        pass_on = self._pass_on, {"freed": json.dumps(freed, ensure_ascii=False)}
        for woken, *passed_over in run.all_rows([pass_on], last=True)[0]:
            if woken is None:
                run.passed_over.add(Slot(*passed_over))
            else:
                run.woken.add(woken)
