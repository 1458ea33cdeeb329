"""The hot statements of MariaDB and MySQL.

An UPDATE returns no rows there, so a claim reads whole jobs when it locks them. Statements name their index, and
statements by id work on whole sets: otherwise the server scans a table while it is small, and waits for the locks of
others.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import SelectBase, String, TextClause, column, text
from sqlalchemy.dialects.mysql import insert

from stanchion.stores.fields.jobs import KINDS, LIMITS, Kind
from stanchion.stores.fields.queues import LIMITED
from stanchion.stores.fields.sql import HOLDS_NOTHING, LIVE_COLUMNS, begun, changes, missing
from stanchion.stores.records.jobs import SECOND, UNLANED
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.sql.claims.admit import ASKING
from stanchion.stores.sql.claims.ids import ByIdStatements
from stanchion.stores.sql.claims.lanes import ByArms, LaneStatements, pick
from stanchion.stores.sql.claims.pick import DueStatements, skips_full
from stanchion.stores.sql.claims.reserve import ReservationStatements
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import BY_BYTES, CLAIMED_COLUMNS, HELD_COLUMNS, jobs
from stanchion.stores.sql.jobs.deletion import DeletionStatements
from stanchion.stores.sql.queues.purge import PurgeStatements
from stanchion.stores.sql.rows.jobs import JobStatements

CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
"""Microseconds since 1970 UTC, independent of the session's time zone and its daylight saving time."""

ABOVE_ALL = 10_000
"""Above each rank, including ranks of jobs that hold a semaphore."""

NOW = f"({CLOCK} + :clock_offset)"


def names_of(columns: Sequence[str], prefix: str = "", **instead: str) -> str:
    """Return column names for a list of columns or values; `instead` replaces some."""
    return ", ".join(instead.get(name, f"{prefix}`{name}`") for name in columns)


# -- by ids. On the driver's own connection a list is written into the statement, which is faster than JSON.

LISTED = "stanchion_jobs AS job FORCE INDEX (PRIMARY)"


def given(columns: str, name: str) -> str:
    """Return a table `given` with these columns of the elements of the JSON array in parameter `name`."""
    return f"JSON_TABLE(:{name}, '$[*]' COLUMNS ({columns})) AS given"


TEXT = f"CHARACTER SET utf8mb4 {BY_BYTES}"
"""The type suffix of a text column in JSON_TABLE. Without it, the server's collation applies: k, K and k with a
trailing space may then be equal, in a comparison and in the cache of a subquery."""

ID = "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin"


def given_ids(elements: str, name: str) -> str:
    """Return a table `given` with these columns of the elements of a JSON array; {} is an id."""
    return given(elements.format(f"{ID} PATH"), name)


_TYPES = {
    Kind.ID: ID,
    Kind.NAME: f"VARCHAR(200) {TEXT}",
    Kind.CONTENT: f"LONGTEXT {TEXT}",
    Kind.JSON: f"LONGTEXT {TEXT}",
    Kind.MICROS: "BIGINT",
}


def given_fields(names: Sequence[str], name: str) -> str:
    """Return a table `given` with these fields of jobs; each element of the JSON array is a list of them."""
    columns = ", ".join(f"{field} {_TYPES[KINDS[field]]} PATH '$[{n}]'" for n, field in enumerate(names))
    return given(columns, name)


def by_ids(table: str) -> str:
    """Return the rows `job` of a table with the ids in the JSON array in parameter `ids`."""
    given = given_ids("id {} '$' ", "ids")
    return f"{given} STRAIGHT_JOIN {table} AS job FORCE INDEX (PRIMARY) ON job.id = given.id"


def elements(name: str) -> SelectBase:
    """Return the elements of the JSON array of ids in parameter `name`."""
    return text(f"SELECT value FROM {given_ids('''value {} '$' ''', name)}").columns(column("value", String))


# -- out

_EXPIRED = f"""coalesce((
    SELECT lease_until FROM stanchion_jobs FORCE INDEX (stanchion_jobs_leased)
    WHERE lease_until > :locked_leases ORDER BY lease_until LIMIT 1
) <= {NOW}, FALSE)"""

ANY_EXPIRED = text(f"SELECT {_EXPIRED}")

_HEAD = f"""
    SELECT `rank`, run_at, id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_ready)
    WHERE queue = :queue AND state = 'queued' AND lane = {UNLANED} AND `rank` = (
        SELECT `rank` FROM stanchion_jobs FORCE INDEX (stanchion_jobs_ready)
        WHERE queue = :queue AND state = 'queued' AND lane = {UNLANED} AND `rank` < :below AND `rank` >= :min_rank
        ORDER BY `rank` DESC LIMIT 1
    )
    ORDER BY run_at, id LIMIT 1
"""

HEAD = text(_HEAD)

# The facts that a claim needs first: the clock, whether limits or expired leases prevent it, and the top head.
PROSPECT = text(f"""
    SELECT
        {NOW},
        coalesce(
            {LIMITED},
            FALSE
        )
            OR {_EXPIRED},
        coalesce(settings.uses_slots, FALSE), settings.lease, head.rank, head.run_at, head.id
    FROM (SELECT 1 AS one) AS always
    LEFT JOIN stanchion_queues AS settings ON settings.name = :queue
    LEFT JOIN ({_HEAD}) AS head ON TRUE
""")

_RESERVED = names_of(
    CLAIMED_COLUMNS,
    payload="NULL",
    **begun(f"{NOW} + :lease_micros", NOW),
)

# Whole jobs, as the reservation leaves them. The driver is slow per column, but fast with JSON; the payload is
# separate, as the result of JSON_ARRAY must fit into a packet.
PICK = text(f"""
    SELECT payload, JSON_ARRAY({_RESERVED}) FROM stanchion_jobs FORCE INDEX (stanchion_jobs_ready)
    WHERE queue = :queue AND state = 'queued' AND lane = {UNLANED} AND `rank` = :at_rank AND run_at <= {NOW}
        -- Entries of jobs that left the index stay until InnoDB purges them; starting behind them avoids locking them.
        AND (run_at > :since OR run_at = :since AND id >= :first)
    ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
""")

PICK_THESE = text(f"""
    SELECT payload, JSON_ARRAY({_RESERVED}) FROM {LISTED}
    WHERE job.id IN :ids AND job.queue = :queue AND job.state = 'queued'
        AND {missing(LIMITS, "job.")}
    FOR UPDATE SKIP LOCKED
""")


# Jobs that may use slots are locked by their ids, not by their index entries. To put such a job into the index, the
# holder of a slot may need the lock of the entry that the job left behind: it would wait for a transaction that waits
# for the slot.
def _due(condition: str) -> TextClause:
    return text(f"""
        SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_ready)
        WHERE queue = :queue AND state = 'queued' AND lane = {UNLANED} AND `rank` = :at_rank AND run_at <= {NOW}
            AND {condition}
        ORDER BY run_at, id LIMIT :most
    """)


DUE = _due("TRUE")
DUE_PAST = _due(skips_full("order_key IN :keys"))

# Due jobs by rank, from the highest in use downward. A session variable passes the rank on, so that these statements
# can be sent together.
ABOVE = text(f"SET @stanchion_rank = {ABOVE_ALL}")
NEXT_BELOW = text(f"""
    -- A SET with a subquery would lock what it reads.
    SELECT (
        SELECT `rank` FROM stanchion_jobs FORCE INDEX (stanchion_jobs_ready)
        WHERE queue = :queue AND state = 'queued' AND lane = {UNLANED}
            AND `rank` < @stanchion_rank AND `rank` >= :min_rank
        ORDER BY `rank` DESC LIMIT 1
    ) INTO @stanchion_rank
""")
RANK = text("SELECT @stanchion_rank")
DUE_THERE = text(f"""
    SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_ready)
    WHERE queue = :queue AND state = 'queued' AND lane = {UNLANED} AND `rank` = @stanchion_rank AND run_at <= {NOW}
    ORDER BY run_at, id LIMIT :most
""")


def _lock_due(columns: str) -> TextClause:
    # Another transaction may have deferred a job since it was found, for example because of its rate.
    return text(f"""
        SELECT {columns} FROM {LISTED}
        WHERE job.id IN :ids AND job.queue = :queue AND job.state = 'queued' AND job.run_at <= {NOW}
        FOR UPDATE SKIP LOCKED
    """)


QUEUED_OF_THESE = _lock_due("job.id")
ASKING_OF_THESE = _lock_due(", ".join(f"job.{name}" for name in ("id", *ASKING)))

RESERVE = text(f"""
    UPDATE {LISTED}
    SET {changes(begun())}
    WHERE job.id IN :ids AND job.queue = :queue
""")

REMOVE = text(f"DELETE job FROM {LISTED} WHERE job.id IN :ids AND job.queue IN :queues")


_QUEUED = "stanchion_jobs FORCE INDEX (stanchion_jobs_ready) WHERE queue = :queue AND state = 'queued'"

# A value of another table can't start an index range there, only match an entry; so lanes are read one by one.
LANES_AT_ONCE = 500

_LANE_HEADS = text(f"""
    WITH RECURSIVE numbers (lane) AS (
        SELECT CAST(:first AS SIGNED)
        UNION ALL
        SELECT lane + 1 FROM numbers
        WHERE lane < LEAST(:last, :first + {LANES_AT_ONCE}, (SELECT lane FROM {_QUEUED} ORDER BY lane DESC LIMIT 1))
    )
    SELECT top.lane, top.rank, (
        SELECT run_at FROM {_QUEUED} AND lane = top.lane AND `rank` = top.rank ORDER BY run_at LIMIT 1
    ), {NOW}
    FROM (
        SELECT numbers.lane, (
            SELECT `rank` FROM {_QUEUED} AND lane = numbers.lane ORDER BY `rank` DESC LIMIT 1
        ) AS `rank`
        FROM numbers HAVING `rank` IS NOT NULL ORDER BY lane LIMIT :most
    ) AS top
""")


OF_QUEUE = text("SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_ready) WHERE queue = :queue ORDER BY id")
HELD_OF_THESE = text(f"""
    SELECT {names_of(HELD_COLUMNS, "job.")} FROM {LISTED} WHERE job.id IN :ids AND job.queue IN :queues FOR UPDATE
""")


class MariaDBLaneStatements(LaneStatements):
    """The shared statements about lanes; one has another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.heads = _LANE_HEADS
        self.reach = LANES_AT_ONCE
        self.picks = ByArms(lambda n: pick(dialect, n, locking=False))  # see DUE


class MariaDBJobStatements(JobStatements):
    """The shared statements about whole job rows; some have another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        these = f"SELECT {names_of(LIVE_COLUMNS, 'job.')} FROM {by_ids('stanchion_jobs')}"
        self.lock = text(f"{these} FOR UPDATE")
        self.lock_in = text(f"{these} WHERE job.queue IN :queues FOR UPDATE")
        stored = insert(jobs).values(
            {name: param("job" if name == "id" else f"new_{name}", jobs.c[name].type) for name in LIVE_COLUMNS}
        )
        # The rows exist, and are locked: so this updates all of them by one statement.
        self.rewrite = stored.on_duplicate_key_update(
            {name: stored.inserted[name] for name in LIVE_COLUMNS if name != "id"}
        )
        self.remove = REMOVE
        self.forget = text(f"DELETE job FROM {by_ids('stanchion_history')}")


class MariaDBDeletionStatements(DeletionStatements):
    """The shared statements about deletions; one has another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.queued_locked = text(
            f"SELECT {names_of(HELD_COLUMNS, 'job.')} FROM {by_ids('stanchion_jobs')} "
            "WHERE job.state <> 'running' FOR UPDATE"
        )


class MariaDBPurgeStatements(PurgeStatements):
    """The shared statements; one has another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.purge = text(f"""
            DELETE FROM stanchion_history WHERE queue = :queue AND finished_at <= {NOW} - coalesce(
                :age_micros,
                (SELECT CAST(history_ttl * 1000000 AS SIGNED) FROM stanchion_queues WHERE name = :queue),
                {int(QueueSettings("").history_ttl * SECOND)}
            )
            ORDER BY finished_at LIMIT :most
        """)


ADMITTED = text(f"SELECT {names_of(CLAIMED_COLUMNS, 'job.')} FROM {by_ids('stanchion_jobs')} FOR UPDATE")
"""The jobs that a claim has just reserved with their slots."""


class MariaDBReservationStatements(ReservationStatements):
    """The shared statements; one has another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        # An UPDATE with a subquery would run it again for each job.
        self.plain_unseen = text(f"""
            UPDATE {by_ids("stanchion_jobs")}
            SET {changes(begun(f"{NOW} + :lease_micros", NOW))}
            WHERE job.queue = :queue AND {missing((*LIMITS, "items", "expires"), "job.")}
        """)


class MariaDBByIdStatements(ByIdStatements):
    """The shared statements about the jobs that a claim names, in other forms."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        picked = f"""
            SELECT {", ".join(f"job.{name}" for name in ("id", *ASKING))} FROM {LISTED}
            WHERE job.id IN :ids AND job.queue = :queue AND job.state = 'queued' AND {NOW} <= :not_after
        """
        self.pick = text(f"{picked} AND job.run_at <= {NOW} FOR UPDATE SKIP LOCKED")
        self.pick_to_divide = text(f"{picked} FOR UPDATE SKIP LOCKED")
        self.assign = text(f"""
            UPDATE {dialect.assignments("assigned")}
            STRAIGHT_JOIN stanchion_jobs AS job FORCE INDEX (PRIMARY) ON job.id = given.id
            SET job.worker = coalesce(given.worker, :holder),
                job.lease_until = CASE WHEN given.worker IS NULL THEN job.started_at + :lease_micros END
            WHERE job.queue = :queue
        """)


class MariaDBDueStatements(DueStatements):
    """The shared statements; some have another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.pick_limits = _due(f"{HOLDS_NOTHING} AND order_key IS NULL AND limits = :alike")
        self.pick_key = _due(f"{HOLDS_NOTHING} AND order_key = :alike")
