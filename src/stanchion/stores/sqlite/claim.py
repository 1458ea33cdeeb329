"""SQLite's fast reservations: lanes and semaphores by one statement each, as there is only one writer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import text

from stanchion.stores.fields.sql import begun, changes
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.rules.capacity.slots import semaphore_slot
from stanchion.stores.sql.claims.lanes import Head, Pick
from stanchion.stores.sql.claims.reserve import Reservations, reservation
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.grants import Grants
from stanchion.stores.sql.rows.slots import SlotRows
from stanchion.stores.sqlite.connections import NOW
from stanchion.stores.sqlite.misfits import HAS_ID

_NEEDS = text(f"""
    -- First whether a job needs more than semaphores; then its semaphores, each with its jobs and its free slots.
    WITH job AS MATERIALIZED (
        SELECT order_key, slots_held, limits FROM stanchion_jobs WHERE id IN (SELECT value FROM json_each(:ids))
    )
    SELECT NULL, max(
        -- CASE: the functions of JSON raise errors for other text, and OR may call them first.
        job.order_key IS NOT NULL OR job.slots_held > 0 OR CASE WHEN NOT json_valid(job.limits) THEN 1 ELSE
            json_extract(job.limits, '$.rate') IS NOT NULL
        END
    ), 0 FROM job
    UNION ALL
    SELECT hold.value, count(*), max(CASE WHEN slot.kind IS NULL THEN 0 ELSE coalesce(slot.capacity, 1) - slot.used END)
    FROM job JOIN json_each(CASE WHEN json_valid(job.limits) THEN job.limits END, '$.hold') AS hold
    LEFT JOIN stanchion_slots AS slot ON slot.kind = '{SEMAPHORE}' AND slot.queue = '' AND slot.name = hold.value
    GROUP BY hold.value
""")
_NOW = f"({NOW} + :clock_offset)"
_RESERVE = text(f"""
    UPDATE stanchion_jobs
    SET {changes(begun(f"{_NOW} + :lease_micros", _NOW))},
        slots_held = coalesce(json_array_length(limits, '$.hold'), 0)
    WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING {", ".join(CLAIMED_COLUMNS)}
""")
_TAKE = text(f"""
    UPDATE stanchion_slots SET used = used + given.value FROM json_each(:semaphores) AS given
    WHERE kind = '{SEMAPHORE}' AND queue = '' AND name = given.key
""")
_FREE = text(f"""
    UPDATE stanchion_slots SET used = used - given.value FROM json_each(:semaphores) AS given
    WHERE kind = '{SEMAPHORE}' AND queue = '' AND name = given.key AND NOT waited
    RETURNING name
""")
_PICK = text(f"""
    SELECT (
        SELECT group_concat(id) FROM (
            SELECT id FROM stanchion_jobs
            WHERE queue = :queue AND state = 'queued' AND lane = json_extract(head.value, '$[0]')
                AND rank = json_extract(head.value, '$[1]') AND run_at <= :now AND {HAS_ID}
            ORDER BY run_at, id LIMIT :most
        )
    ) FROM json_each(:heads) AS head ORDER BY head.key
""")


class SqliteReservations(Reservations):
    """Reserves jobs that need only semaphores together with their slots."""

    def with_slots(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> list[JobRow]:
        # There is one writer, so what is read here holds until the commit.
        listed = json.dumps(ids)
        (_, needs_more, _), *wanted = run.rows(_NEEDS, {"ids": listed})
        if needs_more or any(jobs > free for _, jobs, free in wanted):
            return []
        if wanted:
            run.change(_TAKE, {"semaphores": json.dumps({name: jobs for name, jobs, _ in wanted})})
        return [row_from(row) for row in run.rows(_RESERVE, {**reservation(claim, settings), "ids": listed})]


class SqliteLanePicks:
    """Picks jobs of any number of lanes by one statement."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def pick(self, run: Runner, queue: str, heads: Sequence[Head], share: Mapping[int, int]) -> list[Pick]:
        given = {
            "queue": queue,
            "now": self._db.clock(run),
            "heads": json.dumps([head[:2] for head in heads]),
            "most": max(share[head.lane] for head in heads),
        }
        found = zip(heads, run.rows(_PICK, given), strict=True)
        return [Pick(head.lane, job) for head, (ids,) in found if ids for job in ids.split(",")[: share[head.lane]]]


class SqliteGrants:
    """Returns slots of semaphores without waiters, by one statement."""

    def __init__(self, db: Database, slots: SlotRows) -> None:
        self._general = Grants(db, slots)

    def pass_on(self, run: Runner) -> None:
        semaphores = {slot.name: n for slot, n in run.freed.items() if slot.kind == SEMAPHORE}
        if semaphores:
            for (name,) in run.rows(_FREE, {"semaphores": json.dumps(semaphores)}):
                del run.freed[semaphore_slot(name)]
        self._general.pass_on(run)
