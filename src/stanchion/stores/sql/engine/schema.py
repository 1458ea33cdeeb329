"""The tables, and their versions.

    stanchion_jobs      live jobs only: small, whatever lies in history
    stanchion_history   finished jobs, kept for the queue's history_ttl
    stanchion_queues    settings, and the state of the rate limit
    stanchion_tallies   what happened, one row a statement: nobody waits for anybody's counter
    stanchion_counts    tallies folded by maintenance
    stanchion_workers   one row per live worker: its heartbeat
    stanchion_gates     semaphores, the turns of order keys, the buckets of keyed rates
    stanchion_nodes     what the members of a flow add up to, and whose member that is
    stanchion_ends      how the members of a node have ended
    stanchion_notes     small texts under a name, changed by compare-and-set: schedules
    stanchion_stage     jobs that are laid aside until their write is published
    stanchion_meta      the version of the schema, and the identity by which a store knows its database

Times are microseconds since 1970 UTC, by the database's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    event,
    false,
    inspect,
    text,
)
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateColumn

from stanchion.stores.records.jobs import JobRow, NewJob

metadata = MetaData()

JobId = String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
Name = String(200)
Gate = String(420)
Long = Text().with_variant(mysql.LONGTEXT, "mysql")
Real = Float(53)  # as bits of the mantissa: MySQL's plain FLOAT has 24


# Each reads the comment that is addressed to it: the two have no such collation in common.
BY_BYTES = "/*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */"
"""The collation of the tables on MariaDB and MySQL: text differs if a byte does, in case, accents, a space behind."""


def _table(name: str, *columns: Column[Any], **options: Any) -> Table:
    """Define a table."""
    return Table(
        name,
        metadata,
        *columns,
        mysql_engine="InnoDB",
        mysql_default_charset=f"utf8mb4 {BY_BYTES}",
        **options,
    )


meta = _table(
    "stanchion_meta",
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("identity", String(40)),
)


def _job_columns() -> list[Column[Any]]:
    """Return the columns that live and finished jobs share, in the order of JobRow."""
    return [
        Column("id", JobId, primary_key=True),
        Column("queue", Name, nullable=False),
        Column("lane", Integer, nullable=False),
        Column("state", String(10), nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("run_at", BigInteger, nullable=False),
        Column("enqueued_at", BigInteger, nullable=False),
        Column("payload", Long, nullable=False),
        Column("task", Name),
        Column("headers", Long),
        Column("tenant", Name),
        Column("key", Name),
        Column("order_key", Name),
        Column("limits", Long),
        Column("flow", Name),
        Column("origin", JobId),
        Column("attempts", Integer, nullable=False),
        Column("failures", Integer, nullable=False),
        Column("max_attempts", Integer, nullable=False),
        Column("timeout", Real),
        Column("errors", Long),
        Column("progress", Real),
        Column("token", String(64)),
        Column("worker", Name),
        Column("lease_until", BigInteger),
        Column("started_at", BigInteger),
        Column("cancel_requested", Boolean, nullable=False),
        Column("held", Integer, nullable=False, server_default="0"),
        Column("permit", String(64)),
        Column("waits_for", Gate),
        Column("waits_since", BigInteger),
    ]


_OF_LIVE_JOBS = frozenset({"lease_until", "cancel_requested", "held", "permit", "waits_for", "waits_since"})


jobs = _table("stanchion_jobs", *_job_columns())
history = _table(
    "stanchion_history",
    *(column for column in _job_columns() if column.name not in _OF_LIVE_JOBS),
    Column("finished_at", BigInteger, nullable=False),
    Column("result", Long),
)


def _partial(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    """Define an index of those rows only, for databases that have such."""
    index = Index(name, *columns, unique=unique, postgresql_where=where, sqlite_where=where)
    index.ddl_if(("postgresql", "sqlite"))  # type: ignore[arg-type]  # it takes several


def _whole(name: str, *columns: Column[Any], unique: bool = False) -> None:
    """Define an index that stands for partial ones on MariaDB and MySQL, whose entries end with the primary key."""
    Index(name, *columns, unique=unique).ddl_if("mysql")


# The claim walks this one: the heads of each priority by a loose scan, then the due ones of a head in order.
_partial(
    "stanchion_jobs_line",
    *(jobs.c.queue, jobs.c.lane, jobs.c.priority, jobs.c.run_at, jobs.c.id),
    where=jobs.c.state == "queued",
)
_partial("stanchion_jobs_running", jobs.c.queue, jobs.c.worker, where=jobs.c.state == "running")
_partial("stanchion_jobs_lease", jobs.c.lease_until, where=jobs.c.lease_until.is_not(None))
_partial("stanchion_jobs_key", jobs.c.queue, jobs.c.key, where=jobs.c.key.is_not(None), unique=True)

# Every job is in each of these, and every change of a column costs; so they are few. The first also counts by state.
_whole("stanchion_jobs_line", jobs.c.queue, jobs.c.state, jobs.c.lane, jobs.c.priority, jobs.c.run_at)
_whole("stanchion_jobs_holder", jobs.c.worker, jobs.c.lease_until)  # a running job has a worker or else a lease
# Any number may have no key. A check for duplicates locks the gap before a key; with the key first, only that before
# the lowest is where jobs without one are added, and only those of the last queue.
_whole("stanchion_jobs_key", jobs.c.key, jobs.c.queue, unique=True)


# The line at a gate, first come first served; the live jobs of an order key, and those of a flow.
_partial("stanchion_jobs_gate", jobs.c.waits_for, jobs.c.waits_since, jobs.c.id, where=jobs.c.waits_for.is_not(None))
_partial(
    "stanchion_jobs_order",
    *(jobs.c.queue, jobs.c.order_key, jobs.c.enqueued_at, jobs.c.id),
    where=jobs.c.order_key.is_not(None),
)
# The jobs that hold a slot or an order key, to be counted.
_partial("stanchion_jobs_held", jobs.c.id, where=jobs.c.held > 0)
_whole("stanchion_jobs_held", jobs.c.held)

# Found by how the text begins, which takes an order by bytes.
for _flow, _name in ((jobs.c.flow, "stanchion_jobs_flow"), (history.c.flow, "stanchion_history_flow")):
    Index(_name, _flow.collate("C"), postgresql_where=_flow.is_not(None), _table=_flow.table).ddl_if("postgresql")
    Index(_name, _flow, sqlite_where=_flow.is_not(None)).ddl_if("sqlite")
_whole("stanchion_jobs_gate", jobs.c.waits_for, jobs.c.waits_since)
_whole("stanchion_jobs_order", jobs.c.order_key, jobs.c.queue, jobs.c.enqueued_at)
_whole("stanchion_jobs_flow", jobs.c.flow)
_whole("stanchion_history_flow", history.c.flow)

Index("stanchion_history_ended", history.c.queue, history.c.finished_at)  # the purge
Index("stanchion_history_page", history.c.queue, history.c.id)  # the search, newest first

queues = _table(
    "stanchion_queues",
    Column("name", Name, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("max_rate", Real),
    Column("max_running", Integer),
    Column("lanes", Integer, nullable=False),
    Column("lanes_per_tenant", Integer, nullable=False),
    Column("history_ttl", Real, nullable=False),
    Column("dead_letter", Name),
    Column("lease", Real, nullable=False),
    Column("laned", Boolean, nullable=False, server_default=false()),
    Column("expires", Real),
    Column("expires_with_jobs", Boolean, nullable=False, server_default=false()),
    Column("declared", Long),
    Column("last_lane", Integer, nullable=False, server_default="0"),
    Column("letters", Boolean, nullable=False, server_default=false()),
    Column("rate_tokens", Real, nullable=False),
    Column("rate_at", BigInteger, nullable=False),
    Column("active_events", BigInteger, nullable=False, server_default="0"),
    Column("active_at", BigInteger, nullable=False, server_default="0"),
)

tallies = _table(
    "stanchion_tallies",
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("queue", Name, nullable=False),
    Column("what", String(20), nullable=False),
    Column("n", BigInteger, nullable=False),
)
counts = _table(
    "stanchion_counts",
    Column("queue", Name, primary_key=True),
    Column("what", String(20), primary_key=True),
    Column("n", BigInteger, nullable=False),
)

workers = _table(
    "stanchion_workers",
    Column("id", Name, primary_key=True),
    Column("host", Name, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("queues", Long, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("heartbeat", Real, nullable=False),
    Column("state", String(10), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("began", Long),
)

gates = _table(
    "stanchion_gates",
    Column("name", Gate, primary_key=True),
    Column("capacity", Integer),
    Column("used", Integer, nullable=False),
    Column("waited", Boolean, nullable=False, server_default=false()),
    Column("tokens", Real),
    Column("filled_at", BigInteger),
    Column("promised", BigInteger),
    Column("promised_again", BigInteger),
    Column("declared", Integer),
    postgresql_with={"fillfactor": 50},  # a row is changed over and over, and finds room in its page like this
    sqlite_with_rowid=False,
)

nodes = _table(
    "stanchion_nodes",
    Column("id", JobId, primary_key=True),
    Column("root", JobId, nullable=False),
    Column("kind", String(10), nullable=False),
    Column("parent", String(60)),
    Column("size", Integer, nullable=False),
    Column("closed", Boolean, nullable=False),
    Column("ended", Integer, nullable=False),
    Column("state", String(10), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("handler", Long),
    Column("definition", Long),
)
Index("stanchion_nodes_root", nodes.c.root)
Index("stanchion_nodes_finished", nodes.c.finished_at)

ends = _table(
    "stanchion_ends",
    Column("node", JobId, primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("job", JobId),
    Column("child", JobId),
    Column("state", String(10), nullable=False),
    Column("result", Long),
)

notes = _table(
    "stanchion_notes",
    Column("kind", String(40), primary_key=True),
    Column("name", Name, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("text", Long, nullable=False),
)

# Nobody claims, counts or finds what is here. A row is there once whoever repeats a call, and found by ranges of ids.
stage = _table(
    "stanchion_stage",
    Column("write", Name, primary_key=True),
    Column("attempt", String(64), primary_key=True),
    Column("id", JobId, primary_key=True),
    Column("staged_at", BigInteger, nullable=False),
    Column("queue", Name, nullable=False),
    Column("payload", Long, nullable=False),
    Column("task", Name),
    Column("priority", SmallInteger, nullable=False, server_default="0"),
    Column("run_at", BigInteger),
    Column("delay", BigInteger, nullable=False, server_default="0"),
    Column("headers", Long),
    Column("tenant", Name),
    Column("key", Name),
    Column("on_duplicate", String(10), nullable=False, server_default="return"),
    Column("order_key", Name),
    Column("limits", Long),
    Column("flow", Name),
    Column("origin", JobId),
    Column("max_attempts", Integer, nullable=False, server_default=str(NewJob._field_defaults["max_attempts"])),
    Column("timeout", Real),
    Column("lane", Integer, nullable=False, server_default="0"),
    Column("waits_for", Gate),
    sqlite_with_rowid=False,
)
# What a crash of the server takes away is missed when the write is published, and staged anew.
_unlogged = DDL("ALTER TABLE stanchion_stage SET UNLOGGED")  # type: ignore[no-untyped-call]
event.listen(stage, "after_create", _unlogged.execute_if(dialect="postgresql"))

HELD_COLUMNS = ("id", "queue", "order_key", "limits", "flow", "held")
"""What tells of a live job what it holds, and where it stands in a flow."""
LIVE_COLUMNS = tuple(column.name for column in jobs.columns)
HISTORY_COLUMNS = tuple(column.name for column in history.columns)
FIELDS = JobRow._fields


def _create_all(connection: Connection) -> None:
    metadata.create_all(connection)
    # Where each step of the schema commits itself, a setup that died may have left a table without its indexes.
    for table in metadata.sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _add_what_is_missing(connection: Connection) -> None:
    """Bring the tables of an older version up to date: missing tables, columns and indexes.

    Workers of that version run on: every column they leave out has a default.
    """
    found = inspect(connection)
    there = set(found.get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in there:
            continue
        known = {column["name"] for column in found.get_columns(table.name)}
        for column in table.columns:
            if column.name not in known:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {definition}"))
    _create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _create_all,
    _add_what_is_missing,
    _create_all,
    _add_what_is_missing,
)
"""Step n brings a schema of version n to n + 1; steps are only ever added."""

VERSION = len(MIGRATIONS)
