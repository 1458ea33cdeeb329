"""Shared parts of PostgreSQL's statements: the clock, the database's identity, the pick of the next due jobs."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.fields import queues
from stanchion.stores.fields.jobs import LIMITS, Kind
from stanchion.stores.fields.queues import LIMITED
from stanchion.stores.fields.sql import USES_SLOTS, begun, changes
from stanchion.stores.records.claims import POPPED
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS, ID_COLUMNS

IDENTITY = "identity || ' ' || CAST(tableoid AS text) || ' ' || current_database()"
"""The stored identity alone is not unique: a copied database or schema has it too."""

HERE = f"EXISTS (SELECT 1 FROM stanchion_meta WHERE {IDENTITY} = CAST(:identity AS text))"
"""The condition that keeps a statement in a caller's transaction from changing another database than the store's."""

NOW = "(CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT) + CAST(:clock_offset AS BIGINT))"
ONCE = f"(SELECT {NOW})"
"""The same for many rows: the clock is read once. The planner can't use it to estimate how many jobs are due."""


TYPES = dict.fromkeys(Kind, "text") | {
    Kind.ID: "uuid",
    Kind.SMALL: "int2",
    Kind.INT: "int",
    Kind.MICROS: "bigint",
    Kind.REAL: "float8",
}
"""The types of the fields of jobs."""


def listed(names: Sequence[str], **instead: str) -> str:
    """Return column names for a list of columns or values; `instead` replaces some."""
    return ", ".join(instead.get(name, name) for name in names)


def slots_read(given: str, columns: str, locking: str = "") -> str:
    """Return a table `slot` of these columns of the slots in a table `given`, in its order.

    Each slot is read by its key, so that no planner can turn this into a scan of all slots.
    """
    return f"""
        {given} CROSS JOIN LATERAL (
            SELECT {columns} FROM stanchion_slots AS slot
            WHERE slot.kind = given.kind AND slot.queue = given.queue AND slot.name = given.name
            LIMIT 1 {locking}
        ) AS slot
    """


def slots_at(given: str) -> str:
    """Return the condition for the slots in a table `given`, which the transaction has locked by an earlier statement.

    They are found by their positions (ctid), which the locks keep stable.
    """
    return f"ctid = ANY (ARRAY(SELECT slot.place FROM {slots_read(given, 'slot.ctid AS place')}))"


# The first entry of the index of leases, for any queue: for a single one, its running jobs would have to be scanned.
NONE_EXPIRED = (
    "coalesce((SELECT min(lease_until) FROM stanchion_jobs WHERE lease_until > CAST(:locked_leases AS BIGINT))"
    f" > {NOW}, true)"
)
"""No lease has expired except leases that could not be freed just now; see `LockedLeases`."""

CLOCK = f"clock (now, none_expired) AS (SELECT {NOW}, {NONE_EXPIRED})"
"""The CTE that reads the clock, and whether a lease has expired, once for a statement."""


_UNLIMITED = f"""
    NOT EXISTS (SELECT 1 FROM stanchion_queues WHERE name = :queue AND ({LIMITED}))
        AND (SELECT none_expired FROM clock)
"""
"""The condition that a statement may pick jobs by itself: the queue has no limits, and no lease has expired."""


def picked(
    columns: str, *, before: str = "", allowed: str = _UNLIMITED, condition: str = "true", most: str = ":most"
) -> str:
    """Return the CTEs that lock the next due jobs that meet a condition, up to `most`, and read these columns.

    `before`: CTEs for `allowed`, without which they pick none.
    """
    return f"""
        WITH RECURSIVE {CLOCK}, {before} heads (rank) AS (
            (
                SELECT rank FROM stanchion_jobs
                WHERE queue = :queue AND lane = {UNLANED} AND state = 'queued' AND rank >= :min_rank AND {allowed}
                -- A claim need not wait for the disk: if a crash of the server undoes it, the job is ready again, and
                -- its token refuses the former holder. Any later commit makes it durable too.
                AND set_config('synchronous_commit', 'off', true) IS NOT NULL
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
            -- The heads come highest first, and the limit stops before a lower one is read or locked.
            SELECT due.* FROM heads CROSS JOIN LATERAL (
                SELECT {columns}
                FROM stanchion_jobs
                WHERE queue = :queue AND lane = {UNLANED} AND state = 'queued'
                    AND rank = heads.rank AND run_at <= {NOW} AND {condition}
                ORDER BY run_at, id LIMIT {most} FOR UPDATE SKIP LOCKED
            ) AS due
            WHERE heads.rank IS NOT NULL
            LIMIT {most}
        )
    """


NEEDS_SLOT = f"{USES_SLOTS} AS needs_slot"
PLACES = f"ctid AS place, {NEEDS_SLOT}"
PICKED = picked(f"{PLACES}, id, {', '.join(LIMITS)}, slots_held")
UNSEEN_PLACES = f"ctid AS place, expires IS NOT NULL OR {NEEDS_SLOT}"
"""For claims without rows: a job that expires must be read."""

EXPIRED = "expired "
"""Begins the answer of a statement that has reserved nothing, as leases have expired; the clock follows."""

MET = f"""
    CASE
        WHEN NOT (SELECT none_expired FROM clock) THEN '{EXPIRED}' || (SELECT now FROM clock)
        ELSE coalesce((
            SELECT CASE WHEN {queues.CAPPED} THEN 'capped' ELSE {queues.SHAPE} END
            FROM stanchion_queues WHERE name = :queue
        ), 'plain')
    END
"""
"""The reason that a statement may not reserve jobs: the shape of the queue, or expired leases."""
SHAPE = f"CASE WHEN EXISTS (SELECT 1 FROM picked WHERE needs_slot) THEN 'slots' ELSE {MET} END"
"""The reason why a statement with `PICKED` has reserved nothing."""

RESERVES = f"CAST(:delivery AS text) IS DISTINCT FROM '{POPPED}'"
"""The condition that a claim counts its jobs as reserved."""

RESERVED = changes(
    begun("(SELECT now FROM clock) + CAST(:lease_micros AS BIGINT)", started_at="(SELECT now FROM clock)")
)


ITEMS = "sum(coalesce(items, 1))"
"""The number of items of some jobs."""


def claimed(picked: str, returning: str, reserved: str = RESERVED, of: str = "", condition: str = "true") -> str:
    """Return the CTEs that pick jobs, reserve them unless one needs a slot, and count them.

    `reserved`: the changes of a job, from the tables `of`, whose rows are joined by the condition.
    """
    return f"""
        {picked}, claimed AS (
            UPDATE stanchion_jobs AS job SET {reserved} {of}
            -- By position (ctid), which the locks keep stable: no planner can turn this into a scan of the table.
            WHERE job.queue = :queue AND {condition} AND job.ctid = ANY (ARRAY(
                SELECT place FROM picked WHERE NOT EXISTS (SELECT 1 FROM picked WHERE needs_slot)
            ))
            RETURNING {returning}
        ), counted AS (
            INSERT INTO stanchion_counter_events (queue, what, n)
            SELECT :queue, 'reserved', {ITEMS} FROM claimed
            WHERE {RESERVES} HAVING count(*) > 0
        )
    """


def answered(claimed: str, answer: str) -> str:
    """Return the statement that returns the reserved jobs, each with the answer; one row without an id if none is."""
    return f"{claimed} SELECT claimed.*, answer FROM (SELECT {answer} AS answer) AS given LEFT JOIN claimed ON true"


def counted(claimed: str, answer: str) -> str:
    """Return the statement that returns the number of reserved jobs, and the answer."""
    return f"{claimed} SELECT (SELECT count(*) FROM claimed), {answer}"


AS_TEXT = {name: f"CAST({name} AS text)" for name in ID_COLUMNS}
WHOLE = ", ".join(
    f"CAST(job.{name} AS text) AS {name}" if name in AS_TEXT else f"job.{name}" for name in CLAIMED_COLUMNS
)
"""The columns of a claimed `job`."""

IN_TIME = f"(CAST(:not_after AS bigint) IS NULL OR {NOW} <= CAST(:not_after AS bigint))"

BOUNDED = f"""EXISTS (
    SELECT 1 FROM stanchion_queues
    WHERE name = :of_queue AND (paused OR {queues.BOUNDED})
)"""
"""The queue's settings forbid starting the named jobs without reading its other jobs."""
