"""The tables, and their names as every connection finds them; `setup.py` has the versions of the schema.

    stanchion_jobs            live jobs only: small, however large the history
    stanchion_history         finished jobs, kept for the queue's history_ttl
    stanchion_queues          settings, and the state of the rate limit
    stanchion_counter_events  one row per statement, so that no statement waits for a counter
    stanchion_counts          counter events folded by maintenance
    stanchion_workers         one row per live worker: its heartbeat
    stanchion_slots           semaphores, order-key locks, the buckets of keyed rates
    stanchion_flow_nodes      the state of each flow node, and its parent
    stanchion_flow_ends       the end of each member of a node
    stanchion_values          versioned values, changed by compare-and-set, such as schedules
    stanchion_stage           jobs staged until their write is published
    stanchion_stage_prepared  the same, of prepared jobs: many in a row
    stanchion_meta            the version of the schema, and the identity of the database

Times are microseconds since 1970 UTC, by the database's clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Computed,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    false,
    literal_column,
)
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn

from stanchion.stores.fields.indexes import (
    ENDED,
    ENDED_KEYS,
    FLOWS,
    KEYS,
    LEASES,
    LETTERS,
    ORDER_KEYS,
    WAITERS,
    JobIndex,
)
from stanchion.stores.fields.jobs import FINISHED, HELD, HOLDS, KINDS, LIVE, UNCLAIMED, Field, Kind, Of, names
from stanchion.stores.fields.queues import SETTINGS, Setting
from stanchion.stores.fields.sql import BUCKET, LIVE_COLUMNS
from stanchion.stores.records.jobs import UNLANED, NewJob
from stanchion.stores.sql.elements import AnyColumn, AnyType

metadata = MetaData()

JobId = String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
Name = String(200)
SlotName = String(450)  # the rate of a task and a tenant has both names in its own
SlotKind = String(10)
Long = Text().with_variant(mysql.LONGTEXT, "mysql")
Bytes = LargeBinary().with_variant(mysql.LONGBLOB, "mysql")
Real = Float(53)  # bits of the mantissa; MySQL's plain FLOAT has 24

# The two servers have no such collation in common; each reads only the comment addressed to it.
BY_BYTES = "/*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */"
"""The collation of the tables on MariaDB and MySQL: texts that differ in any byte differ, trailing spaces included."""


def _table(name: str, *columns: AnyColumn, **options: Any) -> Table:
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


TYPES: Final[dict[Kind, AnyType | type[AnyType]]] = {
    Kind.ID: JobId,
    Kind.MARKED_ID: String(40),
    Kind.NAME: Name,
    Kind.WORD: String(10),
    Kind.TOKEN: String(64),
    Kind.CONTENT: Long,
    Kind.JSON: Long,
    Kind.MICROS: BigInteger,
    Kind.SMALL: SmallInteger,
    Kind.INT: Integer,
    Kind.REAL: Real,
    Kind.FLAG: Boolean,
}


def _new_column(name: str) -> AnyColumn:
    """Return the column of a field of a new job; its delay is kept in microseconds."""
    if name == "delay":
        return Column(name, BigInteger, nullable=False, server_default="0")
    default = NewJob._field_defaults.get(name)
    required = default is not None or name not in NewJob._field_defaults
    return Column(
        name, TYPES[KINDS[name]], nullable=not required, server_default=None if default is None else str(default)
    )


def _column(field: Field) -> AnyColumn:
    """Return the column of a field; one that starts at zero or false may be left out of an INSERT."""
    zeros: dict[Kind, str | ColumnElement[bool]] = {Kind.INT: "0", Kind.FLAG: false()}
    zero = zeros[field.kind] if field.default in (0, False) else None
    return Column(
        field.name,
        TYPES[field.kind],
        primary_key=field.name == "id",
        nullable=not field.required,
        server_default=zero,
    )


_OVERDUE_AT = Computed("enqueued_at + expires * 1000000", persisted=True)
jobs = _table("stanchion_jobs", *map(_column, LIVE), Column("overdue_at", BigInteger, _OVERDUE_AT))
OVERDUE_AT: Final = jobs.c.enqueued_at + jobs.c.expires * literal_column("1000000")
"""When a job expires. PostgreSQL indexes this term: each push would pay for a column that the server computes."""


class _Compiler(Protocol):
    def visit_create_column(self, element: CreateColumn, **given: object) -> str: ...


@compiles(CreateColumn, "postgresql")
def _definition(element: CreateColumn, compiler: _Compiler, **given: object) -> str | None:
    """Return the definition of a column; None, which leaves it out, for a computed one."""
    return None if element.element.computed is not None else compiler.visit_create_column(element, **given)


history = _table(
    "stanchion_history",
    *(_column(field) for field in FINISHED if field.of is not Of.HISTORY),
    Column("finished_at", BigInteger, nullable=False),
    Column("result", Long),
)


def _setting(one: Setting) -> AnyColumn:
    """Return the column of a setting; one that is a flag may be left out of an INSERT."""
    default = false() if one.kind is Kind.FLAG else None
    key = one.name == "name"
    return Column(one.name, TYPES[one.kind], primary_key=key, nullable=not one.required, server_default=default)


def _partial(name: str, *columns: AnyColumn, where: ColumnElement[bool], unique: bool = False) -> None:
    """Define an index of these rows only, for databases with partial indexes."""
    index = Index(name, *columns, unique=unique, postgresql_where=where, sqlite_where=where)
    index.ddl_if(("postgresql", "sqlite"))  # type: ignore[arg-type]  # it takes several


def _columns(table: Table, names: Iterable[str]) -> list[AnyColumn]:
    return [table.c[name] for name in names]


def _partial_of(name: str, table: Table, index: JobIndex, *, unique: bool = False) -> None:
    """Define the index of the rows that have its field."""
    _partial(name, *_columns(table, index.fields), where=table.c[index.of].is_not(None), unique=unique)


def _both_of(name: str, table: Table, index: JobIndex, *, unique: bool = False) -> None:
    """Define the index of the rows that have its field; MariaDB and MySQL index all rows, and put the field first."""
    _partial_of(name, table, index, unique=unique)
    columns = (one for one in dict.fromkeys((index.of, *index.fields)) if one != "id")
    _whole(name, *_columns(table, columns), unique=unique)


def _whole(name: str, *columns: AnyColumn, unique: bool = False) -> None:
    """Define an index in place of partial ones on MariaDB and MySQL, where entries end with the primary key."""
    Index(name, *columns, unique=unique).ddl_if("mysql")


# The index of the claim: a loose scan finds the head of each rank, then its due jobs in order.
_partial(
    "stanchion_jobs_ready",
    *(jobs.c.queue, jobs.c.lane, jobs.c.rank, jobs.c.run_at, jobs.c.id),
    where=jobs.c.state == "queued",
)
_partial("stanchion_jobs_running", jobs.c.queue, jobs.c.worker, where=jobs.c.state == "running")
Index("stanchion_jobs_overdue", OVERDUE_AT, postgresql_where=jobs.c.expires.is_not(None)).ddl_if("postgresql")
Index("stanchion_jobs_overdue", jobs.c.overdue_at, sqlite_where=jobs.c.expires.is_not(None)).ddl_if("sqlite")
_partial_of("stanchion_jobs_lease", jobs, LEASES)

# Each of these indexes has an entry per job, and each change of a column costs, so they are few. The first also serves
# the counts by state.
_whole("stanchion_jobs_ready", jobs.c.queue, jobs.c.state, jobs.c.lane, jobs.c.rank, jobs.c.run_at)
_whole("stanchion_jobs_overdue", jobs.c.overdue_at)
# Leases that have run out; and the jobs of a worker, which have no lease.
_whole("stanchion_jobs_leased", jobs.c[LEASES.of], jobs.c.worker)
# Any number of jobs may have no key. A duplicate check locks the gap before a key. As the key comes first, only the gap
# before the lowest key receives jobs without one, and only those of the last queue.
_both_of("stanchion_jobs_key", jobs, KEYS, unique=True)
_both_of("stanchion_jobs_waiting", jobs, WAITERS)
_both_of("stanchion_jobs_order", jobs, ORDER_KEYS)
# The jobs that hold a slot or an order key, for counting them.
_held = jobs.c[HOLDS[0]]
_partial("stanchion_jobs_held", jobs.c.id, where=_held > 0)
_whole("stanchion_jobs_held", _held)
# The jobs that carry chunks, for counting their items. No entry changes with the state of its job.
_partial("stanchion_jobs_chunks", jobs.c.queue, where=jobs.c["items"].is_not(None))
_whole("stanchion_jobs_chunks", jobs.c["items"], jobs.c.queue)
for _name, _of in (("stanchion_jobs_flow", jobs), ("stanchion_history_flow", history)):
    _both_of(_name, _of, FLOWS)

Index("stanchion_history_ended", *_columns(history, ENDED.fields))  # the purge
_both_of("stanchion_history_key", history, ENDED_KEYS)
# MariaDB and MySQL find dead letters by the queues that got any.
for _name, _of in (("stanchion_jobs_letters", jobs), ("stanchion_history_letters", history)):
    _partial_of(_name, _of, LETTERS)
Index("stanchion_history_page", history.c.queue, history.c.id)  # the search, newest first

queues = _table(
    "stanchion_queues",
    *map(_setting, SETTINGS),
    Column("last_lane", Integer, nullable=False, server_default=str(UNLANED)),
    Column("has_dead_letters", Boolean, nullable=False, server_default=false()),
    Column("rate_tokens", Real, nullable=False),
    Column("rate_at", BigInteger, nullable=False),
    Column("active_events", BigInteger, nullable=False, server_default="0"),
    Column("active_at", BigInteger, nullable=False, server_default="0"),
    Column("head", String(36)),
)

counter_events = _table(
    "stanchion_counter_events",
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
    Column("serving", Long),
    Column("times", Long),
)

slots = _table(
    "stanchion_slots",
    Column("kind", SlotKind, primary_key=True),
    Column("queue", Name, primary_key=True),
    Column("name", SlotName, primary_key=True),
    Column("capacity", Integer),
    Column("used", Integer, nullable=False),
    Column("waited", Boolean, nullable=False, server_default=false()),
    *(Column(name, TYPES[kind]) for name, kind in BUCKET.items()),
    Column("declared", Integer),
    postgresql_with={"fillfactor": 50},  # rows change often; free space keeps updates within their page
    sqlite_with_rowid=False,
)

flow_nodes = _table(
    "stanchion_flow_nodes",
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
    Column("on_failure", Long),
    Column("definition", Long),
)
Index("stanchion_flow_nodes_root", flow_nodes.c.root)
Index("stanchion_flow_nodes_finished", flow_nodes.c.finished_at)

flow_ends = _table(
    "stanchion_flow_ends",
    Column("node", JobId, primary_key=True),
    Column("member_index", Integer, primary_key=True, autoincrement=False),
    Column("job", JobId),
    Column("child", JobId),
    Column("state", String(10), nullable=False),
    Column("result", Long),
)

values = _table(
    "stanchion_values",
    Column("kind", String(40), primary_key=True),
    Column("name", Name, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("text", Long, nullable=False),
)

# Staged jobs are not claimed, counted or searched. The key makes repeated calls safe, and gives ranges of ids.
stage = _table(
    "stanchion_stage",
    Column("write", Name, primary_key=True),
    Column("attempt", String(64), primary_key=True),
    Column("id", JobId, primary_key=True),
    Column("staged_at", BigInteger, nullable=False),
    *map(_new_column, NewJob._fields[1:]),
    sqlite_with_rowid=False,
)
stage_prepared = _table(
    "stanchion_stage_prepared",
    Column("write", Name, primary_key=True),
    Column("attempt", String(64), primary_key=True),
    Column("first", JobId, primary_key=True),
    Column("staged_at", BigInteger, nullable=False),
    Column("queue", Name, nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("rows", Bytes, nullable=False),
)


HELD_COLUMNS = HELD
"""Columns of a live job with its holds and its position in a flow."""
CLAIMED_COLUMNS = LIVE_COLUMNS[: LIVE_COLUMNS.index(UNCLAIMED[0])]
"""Columns of a live job that a claim returns."""
HISTORY_COLUMNS = tuple(column.name for column in history.columns)
ID_COLUMNS = names(Kind.ID)
"""Columns of jobs with ids, which a database may keep as UUIDs, and JobRow has as texts."""


_TABLE: Final = re.compile(rf"--.*|'(?:[^']|'')*'|(?<![\w.\"])(?:{'|'.join(sorted(metadata.tables))})\b")
"""A comment or a text, which may contain anything, or the name of a table."""
_SUBSTITUTE: Final = re.compile(r"\b(stanchion_\w+) AS\s*\(")
"""A common table expression that takes the place of a table."""


class Qualified(NamedTuple):
    """Puts the schema before the names of the tables; None: the connection's own `search_path` finds them.

    Statements are written with bare names. Where the tables have a separate schema, it is put before these names in
    the finished SQL, so that a statement reaches the same tables on our connections, on a caller's, and behind a
    pooler.
    """

    schema: str | None = None

    def __call__(self, sql: str) -> str:
        """Return a statement with qualified names."""
        if self.schema is None:
            return sql
        substitutes = set(_SUBSTITUTE.findall(sql))

        def qualify(found: re.Match[str]) -> str:
            left = found[0].startswith(("'", "--")) or found[0] in substitutes
            return found[0] if left else f'"{self.schema}".{found[0]}'

        return _TABLE.sub(qualify, sql)

    def shown(self, url: URL) -> URL:
        """Return the URL of the tables for messages: the database's URL, with the schema."""
        return url if self.schema is None else url.update_query_dict({"schema": self.schema})
