"""MariaDB's and MySQL's own forms of the hot statements.

An UPDATE returns nothing there, so a claim reads whole jobs as it locks them. Statements name their index,
and those that go by ids work on whole sets: left to choose, the server scans a table while it is small, and
waits there for the locks of others.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import SelectBase, String, TextClause, column, text
from sqlalchemy.dialects.mysql import insert

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import BY_BYTES, HELD_COLUMNS, LIVE_COLUMNS, jobs
from stanchion.stores.sql.gate_statements import ASKING
from stanchion.stores.sql.jobs import JobStatements
from stanchion.stores.sql.lane_statements import ByArms, LaneStatements, pick
from stanchion.stores.sql.statements import SHUT, Statements

CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
"""Microseconds since 1970 UTC, whatever the time zone of the session and its leaps."""

ABOVE_ALL = 10_000
"""Above every priority, also of jobs that hold a semaphore."""

NOW = f"({CLOCK} + :clock_offset)"


def names_of(columns: Sequence[str], prefix: str = "", **instead: str) -> str:
    """Return column names for a list of columns or values, some replaced."""
    return ", ".join(instead.get(name, f"{prefix}`{name}`") for name in columns)


# -- by ids. On the driver's own connection a list goes into the statement, which is quicker than JSON.

LISTED = "stanchion_jobs AS job FORCE INDEX (PRIMARY)"


def given(columns: str, name: str) -> str:
    """Return a table `given` with these columns of the elements of the JSON array in parameter `name`."""
    return f"JSON_TABLE(:{name}, '$[*]' COLUMNS ({columns})) AS given"


TEXT = f"CHARACTER SET utf8mb4 {BY_BYTES}"
"""How a column of text is written in JSON_TABLE, which would have the server's collation: there k, K and k with a space
behind it may be one, in a comparison and in the cache of a subquery."""

ID = "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin"


def given_ids(elements: str, name: str) -> str:
    """Return a table `given` with these columns, of which {} is an id, of the elements of a JSON array."""
    return given(elements.format(f"{ID} PATH"), name)


def by_ids(table: str) -> str:
    """Return the rows `job` of a table that have the ids in the JSON array in parameter `ids`."""
    given = given_ids("id {} '$' ", "ids")
    return f"{given} STRAIGHT_JOIN {table} AS job FORCE INDEX (PRIMARY) ON job.id = given.id"


def elements(name: str) -> SelectBase:
    """Return the elements of the JSON array of ids in parameter `name`."""
    return text(f"SELECT value FROM {given_ids('''value {} '$' ''', name)}").columns(column("value", String))


# -- out

_EXPIRED = f"""coalesce((
    SELECT lease_until FROM stanchion_jobs FORCE INDEX (stanchion_jobs_holder)
    WHERE worker IS NULL AND lease_until IS NOT NULL ORDER BY lease_until LIMIT 1
) <= {NOW}, FALSE)"""

ANY_EXPIRED = text(f"SELECT {_EXPIRED}")

_HEAD = """
    SELECT priority, run_at, id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_line)
    WHERE queue = :queue AND state = 'queued' AND lane = 0 AND priority = (
        SELECT priority FROM stanchion_jobs FORCE INDEX (stanchion_jobs_line)
        WHERE queue = :queue AND state = 'queued' AND lane = 0 AND priority < :below
        ORDER BY priority DESC LIMIT 1
    )
    ORDER BY run_at, id LIMIT 1
"""

HEAD = text(_HEAD)

# What a claim must know first: the clock, whether limits or leases that ran out are in its way, where to begin.
PROSPECT = text(f"""
    SELECT
        {NOW},
        coalesce(
            settings.paused OR settings.laned OR settings.max_rate IS NOT NULL OR settings.max_running IS NOT NULL,
            FALSE
        )
            OR {_EXPIRED},
        settings.lease, head.priority, head.run_at, head.id
    FROM (SELECT 1 AS one) AS always
    LEFT JOIN stanchion_queues AS settings ON settings.name = :queue
    LEFT JOIN ({_HEAD}) AS head ON TRUE
""")

_RESERVED = names_of(
    LIVE_COLUMNS,
    state="'running'",
    payload="NULL",
    attempts="attempts + 1",
    progress="NULL",
    token=":token",
    worker=":worker",
    lease_until=f"CASE WHEN :worker_holds THEN NULL ELSE {NOW} + :lease_micros END",
    started_at=NOW,
)

# Whole jobs, as the reservation leaves them. The driver takes its time for every column, and little for JSON; the
# payload goes beside it, as what JSON_ARRAY makes must not be longer than a packet.
PICK = text(f"""
    SELECT payload, JSON_ARRAY({_RESERVED}) FROM stanchion_jobs FORCE INDEX (stanchion_jobs_line)
    WHERE queue = :queue AND state = 'queued' AND lane = 0 AND priority = :at_priority AND run_at <= {NOW}
        -- What left the line stays in its index until InnoDB purges it; starting behind it saves locking it all.
        AND (run_at > :since OR run_at = :since AND id >= :first)
    ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
""")

PICK_THESE = text(f"""
    SELECT payload, JSON_ARRAY({_RESERVED}) FROM {LISTED}
    WHERE job.id IN :ids AND job.state = 'queued' AND job.order_key IS NULL AND job.limits IS NULL
    FOR UPDATE SKIP LOCKED
""")


# Jobs that may have to ask at gates are locked by their ids, not by their places in the line: to put a job there, who
# holds a gate may need the lock of the entry that it left behind, and would wait for one who waits for the gate.
def _due(condition: str) -> TextClause:
    return text(f"""
        SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_line)
        WHERE queue = :queue AND state = 'queued' AND lane = 0 AND priority = :at_priority AND run_at <= {NOW}
            AND {condition}
        ORDER BY run_at, id LIMIT :most
    """)


_SHUT = " AND ".join(f"limits NOT LIKE :shut{n} ESCAPE '|'" for n in range(SHUT))
_ASKING = "held = 0 AND permit IS NULL"

DUE = _due("TRUE")
_FREE = f"(order_key IS NULL OR order_key NOT IN :keys) AND (limits IS NULL OR {_SHUT})"
DUE_PAST = _due(f"(held > 0 OR waits_since IS NOT NULL OR {_FREE})")

# Due jobs by priorities, from the highest in use to the next below. A variable of the session hands on the priority, so
# that these can go to the server together.
ABOVE = text(f"SET @stanchion_priority = {ABOVE_ALL}")
NEXT_BELOW = text("""
    -- A SET with a subquery would lock what it reads.
    SELECT (
        SELECT priority FROM stanchion_jobs FORCE INDEX (stanchion_jobs_line)
        WHERE queue = :queue AND state = 'queued' AND lane = 0 AND priority < @stanchion_priority
        ORDER BY priority DESC LIMIT 1
    ) INTO @stanchion_priority
""")
PRIORITY = text("SELECT @stanchion_priority")
DUE_THERE = text(f"""
    SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_line)
    WHERE queue = :queue AND state = 'queued' AND lane = 0 AND priority = @stanchion_priority AND run_at <= {NOW}
    ORDER BY run_at, id LIMIT :most
""")


def _lock_due(columns: str) -> TextClause:
    # Another may have put off a job since it was found, by its rate perhaps.
    return text(f"""
        SELECT {columns} FROM {LISTED} WHERE job.id IN :ids AND job.state = 'queued' AND job.run_at <= {NOW}
        FOR UPDATE SKIP LOCKED
    """)


QUEUED_OF_THESE = _lock_due("job.id")
ASKING_OF_THESE = _lock_due(", ".join(f"job.{name}" for name in ("id", *ASKING)))

RESERVE = text(f"""
    UPDATE {LISTED}
    SET job.state = 'running', job.attempts = job.attempts + 1, job.token = :token, job.worker = :worker,
        job.lease_until = :lease_until, job.started_at = :started_at, job.progress = NULL
    WHERE job.id IN :ids
""")

REMOVE = text(f"DELETE job FROM {LISTED} WHERE job.id IN :ids")


_LINE = "stanchion_jobs FORCE INDEX (stanchion_jobs_line) WHERE queue = :queue AND state = 'queued'"

# A row from outside can't begin a range there, only be equal; so this asks for one lane after the other.
LANES_AT_ONCE = 500

_LANE_HEADS = text(f"""
    WITH RECURSIVE numbers (lane) AS (
        SELECT CAST(:first AS SIGNED)
        UNION ALL
        SELECT lane + 1 FROM numbers
        WHERE lane < LEAST(:last, :first + {LANES_AT_ONCE}, (SELECT lane FROM {_LINE} ORDER BY lane DESC LIMIT 1))
    )
    SELECT top.lane, top.priority, (
        SELECT run_at FROM {_LINE} AND lane = top.lane AND priority = top.priority ORDER BY run_at LIMIT 1
    ), {NOW}
    FROM (
        SELECT numbers.lane, (
            SELECT priority FROM {_LINE} AND lane = numbers.lane ORDER BY priority DESC LIMIT 1
        ) AS priority
        FROM numbers HAVING priority IS NOT NULL ORDER BY lane LIMIT :most
    ) AS top
""")


OF_QUEUE = text("SELECT id FROM stanchion_jobs FORCE INDEX (stanchion_jobs_line) WHERE queue = :queue ORDER BY id")
HELD_OF_THESE = text(f"SELECT {names_of(HELD_COLUMNS, 'job.')} FROM {LISTED} WHERE job.id IN :ids FOR UPDATE")


class MariaDBLaneStatements(LaneStatements):
    """The shared statements about lanes, one in another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.heads = _LANE_HEADS
        self.reach = LANES_AT_ONCE
        self.picks = ByArms(lambda n: pick(dialect, n, locking=False))  # see DUE


class MariaDBJobStatements(JobStatements):
    """The shared statements about whole rows of jobs, some in another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.lock = text(f"SELECT {names_of(LIVE_COLUMNS, 'job.')} FROM {by_ids('stanchion_jobs')} FOR UPDATE")
        stored = insert(jobs).values(
            {name: param("job" if name == "id" else f"new_{name}", jobs.c[name].type) for name in LIVE_COLUMNS}
        )
        # The rows are there, and locked: so this updates them, all in one statement.
        self.rewrite = stored.on_duplicate_key_update(
            {name: stored.inserted[name] for name in LIVE_COLUMNS if name != "id"}
        )
        self.remove = REMOVE
        self.forget = text(f"DELETE job FROM {by_ids('stanchion_history')}")


class MariaDBStatements(Statements):
    """The shared statements, some in another form."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.queued_locked = text(
            f"SELECT {names_of(HELD_COLUMNS, 'job.')} FROM {by_ids('stanchion_jobs')} "
            "WHERE job.state <> 'running' FOR UPDATE"
        )
        self.purge = text(f"""
            DELETE FROM stanchion_history WHERE queue = :queue AND finished_at <= {NOW} - coalesce(
                :age_micros,
                (SELECT CAST(history_ttl * 1000000 AS SIGNED) FROM stanchion_queues WHERE name = :queue),
                {int(QueueSettings("").history_ttl * SECOND)}
            )
            ORDER BY finished_at LIMIT :most
        """)
        # An UPDATE with a subquery would read the subquery again for every job.
        self.reserve_unseen = text(f"""
            UPDATE {by_ids("stanchion_jobs")}
            SET job.state = 'running', job.attempts = job.attempts + 1, job.token = :token, job.worker = :worker,
                job.lease_until = CASE WHEN :worker_holds THEN NULL ELSE {NOW} + :lease_micros END,
                job.started_at = {NOW}, job.progress = NULL
            WHERE job.order_key IS NULL AND job.limits IS NULL
        """)
        self.pick_limits = _due(f"{_ASKING} AND order_key IS NULL AND limits = :alike")
        self.pick_key = _due(f"{_ASKING} AND order_key = :alike")
