"""PostgreSQL's claim of jobs that may have to wait at gates, in two round trips.

The first locks the next jobs, then their gates, and reads these under the locks; the second writes what was decided,
and commits it. So the gates, which everybody wants, are locked for as long as it takes to decide, and no longer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from sqlalchemy import text

from stanchion.stores.postgres.pick import NONE_EXPIRED, NOW, picked
from stanchion.stores.postgres.release import PostgresGrants
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.jobs import own_priority
from stanchion.stores.rules.slots import Verdict, gated, order_gate
from stanchion.stores.sql.admission import Admission, AtGates, Decision, asking, lease_until
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS
from stanchion.stores.sql.gate_statements import ASKING
from stanchion.stores.sql.granting import Grants
from stanchion.stores.sql.parking import Search
from stanchion.stores.sql.slots import SLOT_COLUMNS, SlotRow, filled
from stanchion.stores.sql.store import SqlStore

_COLUMNS = ", ".join(ASKING)
_TEXTS = {name: f"CAST(job.{name} AS text) AS {name}" for name in ("id", "origin")}
_WHOLE = ", ".join(_TEXTS.get(name, f"job.{name}") for name in LIVE_COLUMNS)

# Jobs first, then gates in the order of their names: those of order keys and of rates are made, all are locked. Their
# names are left to the next statement, which begins behind the locks and so reads what was committed last.
_LOCK = text(f"""
    {picked(f"id, {_COLUMNS}")}, wanted AS MATERIALIZED (
        SELECT 'o' || length(queue) || ':' || queue || ':' || order_key AS name FROM picked
        WHERE order_key IS NOT NULL AND (held = 0 OR CAST(limits AS jsonb) ? 'rate')
        UNION
        SELECT 's:' || gate.name FROM picked CROSS JOIN LATERAL
            jsonb_array_elements_text(CAST(limits AS jsonb) -> 'hold') WITH ORDINALITY AS gate (name, nth)
        WHERE gate.nth + CAST(order_key IS NOT NULL AS int) > held OR CAST(limits AS jsonb) ? 'rate'
        UNION
        SELECT 'r:' || (CAST(limits AS jsonb) -> 'rate' ->> 0) FROM picked WHERE CAST(limits AS jsonb) ? 'rate'
    ), locked AS (
        INSERT INTO stanchion_gates (name, used) SELECT name, 0 FROM wanted ORDER BY name
        ON CONFLICT (name) DO UPDATE SET used = 0 WHERE false
    ), told AS MATERIALIZED (
        SELECT set_config('stanchion.gates', coalesce((SELECT CAST(jsonb_agg(name) AS text) FROM wanted), '[]'), true)
    )
    SELECT CAST(id AS text), {_COLUMNS} FROM picked, told ORDER BY priority DESC, run_at, id
""")
_READ = text(f"""
    SELECT {SLOT_COLUMNS}, CASE WHEN name LIKE 'o%' THEN (
        SELECT CAST(id AS text) FROM stanchion_jobs WHERE queue = :queue AND order_key = substr(name, :before_the_key)
        ORDER BY enqueued_at, stanchion_jobs.id LIMIT 1
    ) END
    FROM stanchion_gates WHERE name = ANY (ARRAY(
        SELECT value FROM jsonb_array_elements_text(CAST(nullif(current_setting('stanchion.gates', true), '') AS jsonb))
    ))
""")
_BESIDE = text(f"""
    SELECT {NOW}, (SELECT lease FROM stanchion_queues WHERE name = :queue),
        coalesce((
            SELECT paused OR laned OR max_rate IS NOT NULL OR max_running IS NOT NULL
            FROM stanchion_queues WHERE name = :queue
        ), false) OR NOT {NONE_EXPIRED}
""")
_CARRY_OUT = text(f"""
    WITH new AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(CAST(:jobs AS jsonb)) AS new (
            id uuid, begins boolean, state text, priority int2, run_at bigint, held int, permit text, waits_for text,
            waits_since bigint
        )
    ), changed AS (
        UPDATE stanchion_jobs AS job
        SET state = new.state, priority = new.priority, run_at = new.run_at, held = new.held, permit = new.permit,
            waits_for = new.waits_for, waits_since = new.waits_since, attempts = attempts + CAST(begins AS int),
            token = CASE WHEN begins THEN :token ELSE token END,
            worker = CASE WHEN begins THEN :worker ELSE worker END,
            lease_until = CASE WHEN begins THEN CAST(:lease_until AS bigint) ELSE lease_until END,
            started_at = CASE WHEN begins THEN :now ELSE started_at END,
            progress = CASE WHEN begins THEN NULL ELSE progress END
        FROM new
        WHERE job.id = ANY (ARRAY(SELECT id FROM new)) AND job.id = new.id
        RETURNING {_WHOLE}
    ), at_gates AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(CAST(:gates AS jsonb)) AS at_gates (
            name text, taken int, waited boolean, tokens float8, filled_at bigint, promised bigint,
            promised_again bigint
        )
    ), used AS (
        UPDATE stanchion_gates AS gate
        SET used = used + coalesce(taken, 0), waited = gate.waited OR coalesce(at_gates.waited, false),
            tokens = coalesce(at_gates.tokens, gate.tokens), filled_at = coalesce(at_gates.filled_at, gate.filled_at),
            promised = coalesce(at_gates.promised, gate.promised),
            promised_again = coalesce(at_gates.promised_again, gate.promised_again)
        FROM at_gates
        WHERE gate.name = ANY (ARRAY(SELECT name FROM at_gates)) AND gate.name = at_gates.name
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM new
        WHERE begins AND CAST(:counted AS boolean) HAVING count(*) > 0
    )
    SELECT * FROM changed WHERE state = 'running'
""")


class PostgresAdmitting(SqlStore):
    """Claims jobs at gates by two round trips."""

    def make_grants(self) -> PostgresGrants:
        return PostgresGrants(self.slots, Grants(self.database, self.slots))

    def claim_at_gates(self, claim: Claim) -> Claimed:
        """Claim jobs of which some have to wait."""
        return self.claim_by(self._claim_some_at_gates, claim, Search())

    def _claim_some_at_gates(self, claim: Claim, search: Search) -> Admission | None:
        if search.past is None and not claim.repeat:
            found = self.transactions.write(
                lambda run, again: self._claim_in_two(run, claim, search, again), durable=False, together=True
            )
            if found is not None:
                return found
        return self.claim_some(claim, search)

    def _claim_in_two(self, run: Runner, claim: Claim, search: Search, again: bool) -> Admission | None:
        """Claim by two round trips; None where there are limits to be kept to, or leases to be freed."""
        if again and (held := self.held(run, claim)):
            return Admission(held)
        picks = self.picks(claim, search, claim.limit)
        before_the_key = len(order_gate(claim.queue, "")) + 1
        read = _READ, {"queue": claim.queue, "before_the_key": before_the_key}
        rows, gates, (beside,) = run.all_rows(
            [(_LOCK, {"queue": claim.queue, "most": picks}), read, (_BESIDE, {"queue": claim.queue})]
        )
        now, lease, hindered = beside
        if not rows:
            return None if hindered else Admission([])
        settings = QueueSettings(claim.queue) if lease is None else QueueSettings(claim.queue, lease=lease)
        if claim.worker is None:
            search.seconds = min(search.seconds, (settings.lease if claim.lease is None else claim.lease) / 2)
        at = AtGates(
            [asking(row) for row in rows],
            {row[0]: SlotRow(*row[:-1]) for row in gates},
            {row[0]: row[-1] for row in gates if row[-1] is not None},
            now,
        )
        found = self.admit_at(run, claim, search, settings, at, claim.limit, last=True)
        return found._replace(more=found.more and (len(rows) == picks or bool(run.freed)))

    def carry_out(self, run: Runner, claim: Claim, settings: QueueSettings, decision: Decision) -> dict[str, JobRow]:
        jobs = [_beginning(verdict, claim) for verdict in decision.admitted]
        jobs += [_put_off(step.after) for step in decision.kept if step.after is not None]
        given = {
            "queue": claim.queue,
            "jobs": json.dumps(jobs),
            "gates": json.dumps(_at_gates(decision), ensure_ascii=False),
            "token": claim.token,
            "worker": claim.worker,
            "lease_until": lease_until(claim, settings, decision.now),
            "now": decision.now,
            "counted": decision.last and claim.counted,
        }
        rows = run.all_rows([(_CARRY_OUT, given)], last=decision.last and not run.freed)[0]
        return {row[0]: JobRow(*row) for row in rows}


_LASTING = ("id", "state", "priority", "run_at", "held", "permit", "waits_for", "waits_since")


def _beginning(verdict: Verdict, claim: Claim) -> dict[str, Any]:
    """Return what is written of a job that is reserved."""
    row = verdict.row
    permit = row.permit or claim.token if gated(row) else row.permit
    running = row._replace(state="running", priority=own_priority(row.priority), held=verdict.held, permit=permit)
    return {"begins": True, **_lasting(running)}


def _put_off(row: JobRow) -> dict[str, Any]:
    """Return what is written of a job that may not run yet."""
    return {"begins": False, **_lasting(row)}


def _lasting(row: JobRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _LASTING}


def _at_gates(decision: Decision) -> list[dict[str, Any]]:
    """Return what is written of gates: also of one at which a job waits already, as the decision hung on it."""
    changes: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, n in decision.slots.taken.items():
        changes[name]["taken"] = n
    for step in decision.kept:
        if step.after is not None and step.after.waits_for is not None:
            changes[step.after.waits_for]["waited"] = True
    for name, bucket in decision.slots.buckets.items():
        state = filled(name, bucket)
        changes[str(state["name"])] |= state
    return [{**change, "name": name} for name, change in changes.items()]
