"""PostgreSQL's claim of jobs that use slots: one statement if all of them get their slots, else two round trips.

    1. lock the next jobs, then their slots, and read the slots under the locks
    2. write the decision, and commit

So the slots, which are contended, stay locked only while the decision is made.
"""

from __future__ import annotations

import json
from collections import defaultdict

from sqlalchemy import Executable, TextClause, text

from stanchion.stores.fields.jobs import Step, cleared
from stanchion.stores.fields.queues import LIMITED
from stanchion.stores.fields.sql import BUCKET, begun, changes, typed
from stanchion.stores.postgres.pick import (
    ITEMS,
    NONE_EXPIRED,
    NOW,
    PICKED,
    RESERVED,
    RESERVES,
    SHAPE,
    TYPES,
    WHOLE,
    picked,
    slots_at,
    slots_read,
)
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import ORDER, RATE, SEMAPHORE, Slot
from stanchion.stores.rules.capacity.slots import Verdict, rate_slot
from stanchion.stores.sql.claims.admit import ASKING, Admission, Decision, SlotRequests, asking
from stanchion.stores.sql.claims.claim import ShortClaims
from stanchion.stores.sql.claims.pick import DueJobs, Search, skips_full
from stanchion.stores.sql.claims.reserve import leased, reservation_at
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.past_waits import with_line
from stanchion.stores.sql.rows.slots import SLOT_COLUMNS, by_slot, filled

_DECIDED = ("state", "rank", "run_at", *cleared(Step.FREED))
"""The columns of a job that an admission decides."""
_LASTING = ("id", *_DECIDED, "past_waits")
_COLUMNS = ", ".join(ASKING)

SEMAPHORES = f"kind = '{SEMAPHORE}' AND queue = ''"
"""The condition that a row of stanchion_slots is a semaphore."""

_HOLDS = "jsonb_array_elements_text(CAST({job}.limits AS jsonb) -> 'hold') WITH ORDINALITY AS slot (name, nth)"


CLAIM_SLOTS = text(f"""
    {PICKED}, wanted AS MATERIALIZED (
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
        SET {RESERVED},
            slots_held = coalesce(jsonb_array_length(CAST(limits AS jsonb) -> 'hold'), 0)
        -- By id, not by position: a job that was changed since the snapshot needs its slots too.
        WHERE job.queue = :queue AND job.id = ANY (ARRAY(SELECT id FROM picked WHERE (SELECT all_of_them FROM allowed)))
        RETURNING {WHOLE}
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT :queue, 'reserved', {ITEMS} FROM claimed
        WHERE {RESERVES} HAVING count(*) > 0
    ), places AS (
        SELECT CAST(id AS text) AS id, row_number() OVER () AS nth FROM picked
    )
    SELECT claimed.*, shape
    -- One row without an id: the shape of the queue if no job is due, NULL if some due jobs may not run.
    FROM (SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM picked) THEN {SHAPE} END AS shape) AS answer
    LEFT JOIN (claimed JOIN places USING (id)) ON true
    ORDER BY nth
""")
"""Reserves the next due jobs if all of them get their slots: no job has to wait.

It locks the rows of the slots before it reads them, and so sees them as they are, regardless of its snapshot. It can't
see waiters like that, so the row has a `waited` flag. If it reserves nothing, the claim is made in two round trips.
"""

# Jobs are locked first, then slots in their order; missing rows of order keys and rates are made. The slots are passed
# to the next statement, which starts after the locks and so reads the last commit.
_LOCK = text(f"""
    {picked(f"id, {_COLUMNS}")}, wanted AS MATERIALIZED (
        SELECT '{ORDER}' AS kind, queue, order_key AS name FROM picked
        WHERE order_key IS NOT NULL AND (slots_held = 0 OR CAST(limits AS jsonb) ? 'rate')
        UNION
        SELECT '{SEMAPHORE}', '', slot.name FROM picked CROSS JOIN LATERAL
            jsonb_array_elements_text(CAST(limits AS jsonb) -> 'hold') WITH ORDINALITY AS slot (name, nth)
        WHERE slot.nth + CAST(order_key IS NOT NULL AS int) > slots_held OR CAST(limits AS jsonb) ? 'rate'
        UNION
        SELECT '{RATE}', '', CAST(limits AS jsonb) -> 'rate' ->> 0 FROM picked WHERE CAST(limits AS jsonb) ? 'rate'
    ), locked AS (
        INSERT INTO stanchion_slots (kind, queue, name, used) SELECT kind, queue, name, 0 FROM wanted
        ORDER BY kind, queue COLLATE "C", name COLLATE "C"
        ON CONFLICT (kind, queue, name) DO UPDATE SET used = 0 WHERE false
    ), passed_on AS MATERIALIZED (
        SELECT set_config('stanchion.slots', coalesce((
            SELECT CAST(jsonb_agg(jsonb_build_array(kind, queue, name)) AS text) FROM wanted
        ), '[]'), true)
    )
    SELECT CAST(id AS text), {_COLUMNS} FROM picked, passed_on ORDER BY rank DESC, run_at, id
""")
_READ = text(f"""
    WITH given AS MATERIALIZED (
        SELECT value ->> 0 AS kind, value ->> 1 AS queue, value ->> 2 AS name
        FROM jsonb_array_elements(CAST(nullif(current_setting('stanchion.slots', true), '') AS jsonb))
    )
    SELECT slot.*, CASE WHEN slot.kind = '{ORDER}' THEN (
        SELECT CAST(id AS text) FROM stanchion_jobs WHERE queue = slot.queue AND order_key = slot.name
        ORDER BY enqueued_at, stanchion_jobs.id LIMIT 1
    ) END
    FROM {slots_read("given", SLOT_COLUMNS)}
""")
_LIMITS = text(f"""
    SELECT {NOW}, (SELECT lease FROM stanchion_queues WHERE name = :queue),
        coalesce((
            SELECT {LIMITED} FROM stanchion_queues WHERE name = :queue
        ), false) OR NOT {NONE_EXPIRED}
""")
_BEGUN = begun("CAST(:lease_until AS bigint)")
_IF_BEGUN = {name: f"CASE WHEN begins THEN {term} ELSE job.{name} END" for name, term in _BEGUN.items()}
_AS_DECIDED = {name: f"new.{name}" for name in _DECIDED}
_BUCKET = ", ".join(f"{name} {TYPES[kind]}" for name, kind in BUCKET.items())
_FILLED = changes({name: f"coalesce(slot_changes.{name}, slot.{name})" for name in BUCKET})
_CARRY_OUT = f"""
    WITH new AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(CAST(:jobs AS jsonb)) AS new (
            begins boolean, {typed(_LASTING, TYPES)}
        )
    ), changed AS (
        UPDATE stanchion_jobs AS job
        SET {changes({**_IF_BEGUN, **_AS_DECIDED})},
            past_waits = CASE WHEN new.past_waits IS NULL THEN job.past_waits ELSE {{longer}} END
        FROM new
        WHERE job.queue = :queue AND job.id = ANY (ARRAY(SELECT id FROM new)) AND job.id = new.id
        RETURNING {WHOLE}
    ), slot_changes AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(CAST(:slots AS jsonb)) AS slot_changes (
            kind text, queue text, name text, taken int, waited boolean, {_BUCKET}
        )
    ), used AS (
        UPDATE stanchion_slots AS slot
        SET used = used + coalesce(taken, 0), waited = slot.waited OR coalesce(slot_changes.waited, false),
            {_FILLED}
        FROM slot_changes
        WHERE slot.{slots_at("slot_changes AS given")} AND (slot.kind, slot.queue, slot.name)
            = (slot_changes.kind, slot_changes.queue, slot_changes.name)
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT :queue, 'reserved', {ITEMS} FROM changed
        WHERE state = 'running' AND CAST(:counted AS boolean) HAVING count(*) > 0
    )
    SELECT * FROM changed WHERE state = 'running'
"""


def _carry_out(dialect: Dialect) -> Executable:
    return text(_CARRY_OUT.format(longer=with_line(dialect, "new.past_waits", "job.past_waits")))


class PostgresDue:
    """Finds due jobs together with the slots they need; runs of similar jobs, as on other databases."""

    def __init__(self, db: Database, general: DueJobs) -> None:
        self._dialect, self.alike = db.dialect, general.alike

    def due(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        given: Params = {"queue": queue, "most": limit, "min_rank": search.min_rank}
        if (past := search.past) is None:
            rows = run.rows(_PICK_ASKING, given)
        else:
            skipping = {**past.patterns, "keys": self._dialect.listed(past.keys)}
            rows = run.rows(self._dialect.once(_pick_past), {**skipping, **given})
        search.asking = {str(row[0]): row for row in rows}
        return list(search.asking)


def _pick_asking(condition: str) -> TextClause:
    """Return the statement that locks the next due jobs that meet a condition, and reads what slots they need."""
    asking = picked(f"id, {_COLUMNS}", allowed="true", condition=condition)
    return text(f"{asking} SELECT CAST(id AS text), {_COLUMNS} FROM picked ORDER BY rank DESC, run_at, id")


_PICK_ASKING = _pick_asking("true")


def _pick_past(dialect: Dialect) -> TextClause:
    return _pick_asking(skips_full(dialect.among("order_key", "keys")))


class PostgresDecisions:
    """Writes the decision of a claim by one statement."""

    def __init__(self, db: Database) -> None:
        self._carry_out = db.dialect.once(_carry_out)

    def carry_out(self, run: Runner, claim: Claim, settings: QueueSettings, decision: Decision) -> dict[str, JobRow]:
        jobs = [_reserved(verdict) for verdict in decision.admitted]
        jobs += [_not_admitted(step.after) for step in decision.not_admitted if step.after is not None]
        given = {
            **reservation_at(claim, settings, decision.now),
            "jobs": json.dumps(jobs),
            "slots": json.dumps(_slot_changes(decision), ensure_ascii=False),
            "counted": decision.last and claim.counted,
        }
        rows = run.all_rows([(self._carry_out, given)], last=decision.last and not run.freed)[0]
        return {row[0]: row_from(row) for row in rows}


class TwoTrips(ShortClaims):
    """Claims jobs that need slots, in two round trips where that fits."""

    def _claim_in(self, run: Runner, claim: Claim, search: Search) -> Admission | None:
        picks = search.picks(claim.limit, uses_slots=True)
        rows, slots, (limits,) = run.all_rows(
            [
                (_LOCK, {"queue": claim.queue, "most": picks, "min_rank": claim.min_rank}),
                (_READ, {}),
                (_LIMITS, {"queue": claim.queue}),
            ]
        )
        now, lease, limited = limits
        if not rows:
            if not limited:
                return Admission([])
            self._db.locked_leases.suspect(now)
            return None
        settings = leased(claim.queue, lease)
        search.within(claim, settings)
        at = SlotRequests(
            [asking(row) for row in rows],
            by_slot(row[:-1] for row in slots),
            {Slot(*row[:3]): row[-1] for row in slots if row[-1] is not None},
            now,
        )
        found = self._admissions.admit_at(run, claim, search, settings, at, claim.limit, last=True)
        return found._replace(more=found.more and (len(rows) == picks or bool(run.freed)))


def _reserved(verdict: Verdict) -> dict[str, object]:
    """Return the changes of a job that is reserved."""
    return {"begins": True, **_lasting(verdict.row._replace(state="running", slots_held=verdict.held))}


def _not_admitted(row: JobRow) -> dict[str, object]:
    """Return the changes of a job that is parked or deferred."""
    return {"begins": False, **_lasting(row)}


def _lasting(row: JobRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in _LASTING}


def _slot_changes(decision: Decision) -> list[dict[str, object]]:
    """Return the changes of slots, including slots that have waiters already, as the decision depends on them."""
    changes: defaultdict[Slot, dict[str, object]] = defaultdict(dict)
    for slot, n in decision.slots.taken.items():
        changes[slot]["taken"] = n
    for step in decision.not_admitted:
        if step.after is not None and (waits_for := step.after.waits_for) is not None:
            changes[waits_for]["waited"] = True
    for name, bucket in decision.slots.buckets.items():
        changes[rate_slot(name)] |= filled(name, bucket)
    return [{**slot._asdict(), **change} for slot, change in changes.items()]
