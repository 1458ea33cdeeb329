"""The tables, and their versions.

    stanchion_jobs      live jobs only: small, whatever lies in history
    stanchion_history   finished jobs, kept for the queue's history_ttl
    stanchion_queues    settings, and the state of the rate limit
    stanchion_tallies   what happened, one row a statement: nobody waits for anybody's counter
    stanchion_counts    tallies folded by maintenance
    stanchion_workers   one row per live worker: its heartbeat
    stanchion_meta      the version of the schema

Times are microseconds since 1970 UTC, by the database's clock.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Connection

from stanchion.stores.records import JobRow

metadata = MetaData()

JobId = String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
Name = String(200)

meta = Table("stanchion_meta", metadata, Column("version", Integer, primary_key=True, autoincrement=False))


def _job_columns() -> list[Column[object]]:
    """Return the columns that live and finished jobs share, in the order of JobRow."""
    return [
        Column("id", JobId, primary_key=True),
        Column("queue", Name, nullable=False),
        Column("lane", Integer, nullable=False),
        Column("state", String(10), nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("run_at", BigInteger, nullable=False),
        Column("enqueued_at", BigInteger, nullable=False),
        Column("payload", Text, nullable=False),
        Column("task", Name),
        Column("headers", Text),
        Column("tenant", Name),
        Column("key", Name),
        Column("order_key", Name),
        Column("limits", Text),
        Column("flow", Name),
        Column("origin", JobId),
        Column("attempts", Integer, nullable=False),
        Column("failures", Integer, nullable=False),
        Column("max_attempts", Integer, nullable=False),
        Column("timeout", Float),
        Column("errors", Text),
        Column("progress", Float),
        Column("token", String(64)),
        Column("worker", Name),
        Column("lease_until", BigInteger),
        Column("started_at", BigInteger),
        Column("cancel_requested", Boolean, nullable=False),
    ]


jobs = Table("stanchion_jobs", metadata, *_job_columns())
history = Table(
    "stanchion_history",
    metadata,
    *(column for column in _job_columns() if column.name not in {"lease_until", "cancel_requested"}),
    Column("finished_at", BigInteger, nullable=False),
    Column("result", Text),
)


def _partial(condition: object) -> dict[str, object]:
    return {"postgresql_where": condition, "sqlite_where": condition}


# The claim walks this one: the heads of each priority by a loose scan, then the due ones of a head in order.
Index(
    "stanchion_jobs_line",
    jobs.c.queue,
    jobs.c.lane,
    jobs.c.priority,
    jobs.c.run_at,
    jobs.c.id,
    **_partial(jobs.c.state == "queued"),  # type: ignore[arg-type]
)
Index("stanchion_jobs_running", jobs.c.queue, jobs.c.worker, **_partial(jobs.c.state == "running"))  # type: ignore[arg-type]
Index("stanchion_jobs_lease", jobs.c.lease_until, **_partial(jobs.c.lease_until.is_not(None)))  # type: ignore[arg-type]
Index("stanchion_jobs_key", jobs.c.queue, jobs.c.key, unique=True, **_partial(jobs.c.key.is_not(None)))  # type: ignore[arg-type]
Index("stanchion_history_ended", history.c.queue, history.c.finished_at)  # the purge
Index("stanchion_history_page", history.c.queue, history.c.id)  # the search, newest first

queues = Table(
    "stanchion_queues",
    metadata,
    Column("name", Name, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("max_rate", Float),
    Column("max_running", Integer),
    Column("lanes", Integer, nullable=False),
    Column("lanes_per_tenant", Integer, nullable=False),
    Column("history_ttl", Float, nullable=False),
    Column("dead_letter", Name),
    Column("lease", Float, nullable=False),
    Column("rate_tokens", Float, nullable=False),
    Column("rate_at", BigInteger, nullable=False),
)

tallies = Table(
    "stanchion_tallies",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("queue", Name, nullable=False),
    Column("what", String(20), nullable=False),
    Column("n", BigInteger, nullable=False),
)
counts = Table(
    "stanchion_counts",
    metadata,
    Column("queue", Name, primary_key=True),
    Column("what", String(20), primary_key=True),
    Column("n", BigInteger, nullable=False),
)

workers = Table(
    "stanchion_workers",
    metadata,
    Column("id", Name, primary_key=True),
    Column("host", Name, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("queues", Text, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("heartbeat", Float, nullable=False),
    Column("state", String(10), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
)

LIVE_COLUMNS = tuple(column.name for column in jobs.columns)
HISTORY_COLUMNS = tuple(column.name for column in history.columns)
FIELDS = JobRow._fields


def _create_all(connection: Connection) -> None:
    metadata.create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_create_all,)
"""Step n brings a schema of version n to n + 1; steps are only ever added."""

VERSION = len(MIGRATIONS)
