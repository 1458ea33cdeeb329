"""PostgreSQL 14 and later."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from importlib.util import find_spec

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    String,
    Table,
    bindparam,
    cast,
    event,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine import Dialect as AlchemyDialect

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.postgres import plain_push
from stanchion.stores.postgres.connections import own_schema
from stanchion.stores.postgres.connections.wakeup import NOTIFY, Notifications
from stanchion.stores.postgres.pick import IDENTITY, TYPES, slots_at, slots_read
from stanchion.stores.postgres.store import PostgresStore
from stanchion.stores.records import calls
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.sql.elements import AnySelect, AnyType, EngineOptions
from stanchion.stores.sql.engine import address
from stanchion.stores.sql.engine.awaited import AsyncDriver
from stanchion.stores.sql.engine.callers import Caller, announce_after_commit
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import CLOCK_OFFSET, IDLE_SECONDS, Dialect, Fault
from stanchion.stores.sql.engine.runner import Cursor, Row, Runner, Together
from stanchion.stores.sql.engine.schema import Qualified
from stanchion.stores.wakeup.broadcast import Kind as Signal

try:
    import psycopg
    from psycopg import sql as _sql  # noqa: F401 - a namespace package without the real one would pass
    from psycopg.pq import Conninfo
    from psycopg.rows import tuple_row

    from stanchion.stores.postgres.connections import drivers, errors
    from stanchion.stores.postgres.connections.sessions import (
        APPLICATION,
        DEFAULTS,
        PooledCursor,
        Session,
        Sessions,
        together,
    )
except ImportError:  # pragma: no cover - said by open_store
    psycopg = None  # type: ignore[assignment]  # then no store is opened

CAPABILITIES = Capabilities(
    name="postgresql",
    joins_transactions=True,
    push_wakeup=True,
    wakeup="LISTEN/NOTIFY, coalesced, sent outside of the write",
    atomic_batches=True,
    atomic_pushes=True,
    durable="as synchronous_commit says; by default every commit reaches the disk",
    processes=True,
    extra="postgres",
    arrow=find_spec("adbc_driver_postgresql") is not None,
    feed="exact",
    prepared_jobs=True,
    claims_by_id=True,
)

_SCHEMA_LOCK = 0x5354414E  # arbitrary: the advisory lock of setup
# To the server, a client that stops within a pipeline is an active one: idle_in_transaction_session_timeout does
# not count before the Sync message. A COPY waits for its client, too, but locks no row that others want.
_END_FROZEN_SESSIONS = text("""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = session_user AND application_name = :application
    AND state = 'active' AND wait_event = 'ClientRead' AND query NOT LIKE 'COPY %'
    AND query_start < clock_timestamp() - make_interval(secs => CAST(:seconds AS float8))
""")


class PostgresDialect(Dialect):
    """PostgreSQL through psycopg 3."""

    signals: Notifications
    capabilities = CAPABILITIES
    names = ("postgresql",)
    single_writer, remote, makes_schema = False, True, False
    stores_computed = False
    begin = "BEGIN"
    or_lock = "ON CONFLICT (kind, queue, name) DO UPDATE SET used = 0 WHERE false"
    slot_order = 'kind, queue COLLATE "C", name COLLATE "C"'
    way_out = "check host, port, user, password and database name in the URL, and that the server runs"
    # Stable within a statement, so that an index serves `run_at <= now`; moving within a transaction.
    now = (
        literal_column("CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT)", BigInteger) + CLOCK_OFFSET
    )

    new_identity = "CAST(gen_random_uuid() AS text)"
    identity = IDENTITY
    strange = frozenset({"42P01", "42703", "3F000"})
    cancelled = frozenset({"25P04", "57014"})

    def __init__(self, url: URL, schema: str | None = None) -> None:
        self.qualified = Qualified(schema)
        self.writers, self._has_tables = own_schema.writers(self.qualified), own_schema.has_tables(self.qualified)
        self.signals = Notifications(lambda: _connect(url), schema)
        self._prepares = True
        self.errors, self.driver_names = (psycopg.Error,), drivers.NAMES

    def engine_options(self) -> EngineOptions:
        return {
            "connect_args": dict(DEFAULTS),
            "pool_size": 20,
            "max_overflow": 20,
            "pool_timeout": calls.CALL_SECONDS,
        }

    def prepare(self, engine: Engine) -> None:
        sessions = Sessions()

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: object, _record: object, args: list[str], options: Mapping[str, object]) -> Session:
            return sessions.open(args, options)

    def unhurried(self, connection: Connection) -> AbstractContextManager[None]:
        session = connection.connection.driver_connection
        assert isinstance(session, Session)  # noqa: S101 - see `prepare`
        return session.unhurried()

    def start(self, cursor: Cursor, *, durable: bool = True) -> None:
        if isinstance(cursor, PooledCursor):
            cursor.begin()
        else:
            cursor.execute(self.begin)
        if not durable:
            cursor.execute("SET LOCAL synchronous_commit TO off")

    def commit_early(self, cursor: Cursor, *, durable: bool) -> None:
        # Waiting for the disk here would hold the contended rows of slots. So this commit does not wait, but the next
        # one does: the log is ordered. The caller is answered after that.
        if durable:
            cursor.execute("SET LOCAL synchronous_commit TO off")
        cursor.execute("COMMIT")
        if durable:
            self.see_to_disk(cursor)

    def see_to_disk(self, cursor: Cursor) -> None:
        cursor.execute("SELECT pg_logical_emit_message(true, 'stanchion', '')")

    @contextmanager
    def together(self, cursor: psycopg.Cursor[Row]) -> Iterator[Together | None]:
        with together(cursor.connection) as pipeline:
            yield None if pipeline is None else Together(cursor, lambda: self.cursor(cursor.connection), pipeline.sync)

    def end_frozen_sessions(self, run: Runner) -> None:
        run.rows(_END_FROZEN_SESSIONS, {"application": APPLICATION, "seconds": IDLE_SECONDS})

    def cursor(self, driver: psycopg.Connection[object]) -> psycopg.Cursor[Row]:
        if getattr(driver, "pooled", False):
            return PooledCursor(driver, row_factory=tuple_row)
        if not self._prepares:
            driver.prepare_threshold = None
        return psycopg.RawCursor(driver, row_factory=tuple_row)

    def for_cursors(self, dialect: AlchemyDialect) -> AlchemyDialect:
        # The other cursors translate the names of parameters, at each execution if a statement has over 4,096
        # characters, which costs more than many a round trip.
        numbered = copy(dialect)
        numbered.paramstyle, numbered.positional = "numeric_dollar", True
        numbered.identifier_preparer = numbered.preparer(numbered)  # it doubles % for the other styles
        return numbered

    def fault(self, error: BaseException) -> Fault:
        if errors.is_pooled_away(error):
            self._prepares = False
        return errors.fault(error)

    def advice(self, error: BaseException) -> str:
        return errors.advice(error) or self.way_out

    def is_forbidden(self, error: BaseException) -> bool:
        return errors.is_forbidden(error)

    def worth_retrying(self, error: BaseException) -> bool:
        return errors.worth_retrying(error)

    def is_read_only(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) == errors.READ_ONLY

    def is_closed(self, driver: psycopg.Connection[object]) -> bool:
        return bool(driver.closed)

    def owns(self, connection: object) -> bool:
        return isinstance(connection, psycopg.Connection)

    def must_be_open(self, driver: psycopg.Connection[object]) -> None:
        drivers.must_be_open(driver)

    def async_driver(self, connection: object) -> AsyncDriver | None:
        return drivers.async_driver(connection)

    def for_driver(self, driver: object, dialect: AlchemyDialect) -> AlchemyDialect | None:
        return drivers.asyncpg_dialect(dialect) if drivers.is_asyncpg(driver) else None

    def has_tables(self, run: Runner) -> bool:
        return bool(run.rows(self._has_tables)[0][0])

    def values(self, name: str, kind: AnyType) -> AnySelect:
        elements = func.jsonb_array_elements_text(cast(bindparam(name, type_=String), JSONB))
        return select(cast(elements.table_valued("value").c.value, kind))

    def among(self, column: str, name: str, kind: str = "text") -> str:
        # As an array, which no planner can turn into a join with the whole table.
        return f"{column} = ANY (ARRAY(SELECT CAST(value AS {kind}) FROM {self.elements(name)}))"

    def among_many(self, column: str, name: str) -> str:
        # Each row is compared with all elements of an array that is no constant. IS TRUE keeps the subquery from
        # becoming a join, which could be a nested loop: so it is a hash table.
        return f"({column} IN (SELECT value FROM {self.elements(name)})) IS TRUE"

    def among_slots(self, name: str) -> str:
        return slots_at(self.slots(name))

    def slot_rows(self, columns: str, name: str, locking: str) -> str:
        in_order = f"(SELECT * FROM {self.slots(name)} ORDER BY {self.slot_order}) AS given"
        return f"SELECT slot.* FROM {slots_read(in_order, columns, locking)}"

    def array(self, *values: str) -> str:
        return f"CAST(jsonb_build_array({', '.join(values)}) AS text)"

    def behind(self, mark: str, text: str) -> str:
        return f"substr({text}, strpos({text}, {mark}) + 1)"

    def elements(self, name: str) -> str:
        return f"jsonb_array_elements_text(CAST(:{name} AS jsonb)) AS given (value)"

    def table(self, name: str, columns: Mapping[str, Kind]) -> str:
        items = (
            f"value ->> {n} AS {column}" if kind is Kind.NAME else f"CAST(value ->> {n} AS {TYPES[kind]}) AS {column}"
            for n, (column, kind) in enumerate(columns.items())
        )
        lists = f"jsonb_array_elements(CAST(:{name} AS jsonb)) AS lists (value)"
        return f"(SELECT {', '.join(items)} FROM {lists}) AS given"

    def by_bytes(self, column: ColumnElement[str]) -> ColumnElement[str]:
        return column.collate("C")

    def position(self, column: ColumnElement[str], text: ColumnElement[str]) -> ColumnElement[int]:
        return func.strpos(column, text)

    def insert_ignoring(self, table: Table, values: Mapping[str, object]) -> Executable:
        return insert(table).values(values).on_conflict_do_nothing()

    def insert_ignoring_from(self, table: Table, columns: Sequence[str], rows: AnySelect) -> Executable:
        return insert(table).from_select(columns, rows).on_conflict_do_nothing()

    def has_push_routine(self, connection: Connection) -> bool:
        return plain_push.is_made(connection, self.signals.channels[Signal.WORK])

    def push_routine(self, connection: Connection | None) -> list[str]:
        return plain_push.push_routine(connection, self.signals.channels[Signal.WORK])

    @contextmanager
    def lock_schema(self, connection: Connection) -> Iterator[None]:
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        yield

    def schema_steps(self, *, new: bool) -> list[str]:
        return own_schema.steps(self.qualified.schema, new=new)

    def enter_schema(self, connection: Connection, *, new: bool) -> None:
        own_schema.enter(connection, self.qualified.schema, new=new)

    def announce_in(self, caller: Caller, run: Runner, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Send the signal with the commit.

        A Session and Django report their commit, and the signal is sent then, over another connection. On a bare
        connection only the server knows of the commit, so the signal is part of the transaction. A two-phase
        transaction sends none, as a transaction that has notified can't be prepared: polling finds its jobs.
        """
        if announce_after_commit(caller, self.signals, queues, finished) or getattr(caller.raw(), "_tpc", None):
            return
        for channel, payload in self.signals.signals_of(queues, finished):
            run.rows(NOTIFY, {"channel": channel, "payload": payload})


def _connect(url: URL) -> psycopg.Connection[Row]:
    """Return a connection for signals, which detects a silent network by itself."""
    return psycopg.connect(
        _conninfo(url),
        **{**DEFAULTS, "application_name": None},
        autocommit=True,
        tcp_user_timeout=10_000,
    )


def _conninfo(url: URL) -> str:
    """Return a URL as libpq reads it: SQLAlchemy leaves spaces in names, and writes them as + in options."""
    names, mark, options = url.set(drivername="postgresql").render_as_string(hide_password=False).partition("?")
    return f"{names.replace(' ', '%20')}{mark}{options.replace('+', '%20')}"


def open_store(url: str) -> PostgresStore:
    """Return the store in a PostgreSQL database: `postgresql://user:password@host:port/database?schema=...`."""
    if psycopg is None:
        raise MissingExtra("postgres", "the PostgreSQL store")
    parsed, pool_size = address.with_pool_size(address.parsed(url))
    parsed, schema = own_schema.with_schema(parsed)
    if parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InvalidInput(f"use postgresql://..., not {parsed.drivername}://...; psycopg 3 is the driver")
    if not parsed.database and "service" not in parsed.query:  # the service names it
        raise InvalidInput("the URL names no database; write postgresql://user:password@host:port/database")
    address.refuse_unknown(parsed, frozenset(one.keyword.decode() for one in Conninfo.get_defaults()))
    try:
        psycopg.conninfo.conninfo_to_dict(_conninfo(parsed))
    except psycopg.ProgrammingError:  # its message may contain the password
        raise InvalidInput("the URL of the store is not valid: escape special characters, such as %20") from None
    dialect = PostgresDialect(parsed, schema)
    return PostgresStore(Database(parsed.set(drivername="postgresql+psycopg"), dialect, pool_size))
