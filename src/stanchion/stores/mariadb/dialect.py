"""MariaDB 10.6 and later, MySQL 8."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import signature

from sqlalchemy import (
    BigInteger,
    Executable,
    SelectBase,
    Table,
    column,
    event,
    func,
    insert,
    literal_column,
    select,
    text,
)
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from stanchion.errors import InvalidInput, MissingExtra, StoreUnavailable
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.mariadb.statements import CLOCK, ID, TEXT, elements, given
from stanchion.stores.mariadb.store import MariaDBStore
from stanchion.stores.records import calls
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.plain_push import NAME
from stanchion.stores.sql.elements import AnySelect, AnyType, EngineOptions
from stanchion.stores.sql.engine import address
from stanchion.stores.sql.engine.awaited import AsyncDriver
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import CLOCK_OFFSET, IDLE_SECONDS, Dialect, Fault
from stanchion.stores.sql.engine.runner import Cursor, Together
from stanchion.stores.sql.engine.schema import Name, SlotName
from stanchion.stores.sql.jobs.plain_push import statements
from stanchion.stores.wakeup.listeners import Listeners

try:
    import pymysql
    from pymysql.constants import CLIENT

    from stanchion.stores.mariadb import drivers
    from stanchion.stores.mariadb.cursors import Batch, StrictCursor
    from stanchion.stores.mariadb.errors import advice, fault, is_forbidden, is_read_only, worth_retrying
except ImportError:  # pragma: no cover - said by open_store
    pymysql = None  # type: ignore[assignment]  # then no store is opened

CAPABILITIES = Capabilities(
    name="mariadb",
    joins_transactions=True,
    push_wakeup=False,
    wakeup="none between processes: the workers poll, all together at one rate",
    atomic_batches=True,
    atomic_pushes=True,
    durable="as innodb_flush_log_at_trx_commit says; by default every commit reaches the disk",
    processes=True,
    extra="mysql",
    prepared_jobs=True,
    claims_by_id=True,
)

_LISTED = {Kind.ID: ID, Kind.NAME: f"VARCHAR({SlotName.length}) {TEXT}", Kind.INT: "INT"}
"""Types of the columns of a table that is given as JSON."""
_CONNECT_SECONDS = 5
_LOCK_SECONDS = 3
_SCHEMA_SECONDS = 8
# MySQL has no such limit.
_IDLE = "SET SESSION idle_transaction_timeout = {:.0f}"
_SESSION = (
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
    f"innodb_lock_wait_timeout = {_LOCK_SECONDS}, lock_wait_timeout = {_LOCK_SECONDS}"
)
_MARIADB = re.compile(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)-MariaDB", re.IGNORECASE)
_MYSQL = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# A user without rights on a routine does not see it.
_PUSH_ROUTINE = text(f"""
    SELECT EXISTS (
        SELECT 1 FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_name = '{NAME}'
    ) OR NOT EXISTS (
        SELECT 1 FROM information_schema.user_privileges WHERE privilege_type = 'CREATE ROUTINE'
        UNION ALL SELECT 1 FROM information_schema.schema_privileges WHERE privilege_type = 'CREATE ROUTINE'
    )
""")
_SCHEMES = ("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql")


class MariaDBDialect(Dialect):
    """MariaDB and MySQL through PyMySQL."""

    capabilities = CAPABILITIES
    names = ("mysql", "mariadb")
    single_writer, remote, makes_schema = False, True, False
    keys_by_queue = False
    begin = "BEGIN"
    # An INSERT IGNORE takes shared locks, and two callers that share a lock can't both go on to change the row.
    or_lock = "ON DUPLICATE KEY UPDATE name = stanchion_slots.name"
    rank = "`rank`"
    reading = "LOCK IN SHARE MODE"
    way_out = "check host, port, user, password and database name in the URL, and that the server runs"
    now = literal_column(CLOCK, BigInteger) + CLOCK_OFFSET
    new_identity = "UUID()"
    identity = "CONCAT(identity, ' ', LOWER(DATABASE()))"
    strange = frozenset({1046, 1054, 1146})
    cancelled = frozenset({1317, 1969, 3024})

    def __init__(self) -> None:
        self.signals = Listeners(connected=lambda _listener: False)
        self._limits_idling = False
        self.errors, self.driver_names = (pymysql.Error,), drivers.NAMES

    def engine_options(self) -> EngineOptions:
        return {
            "connect_args": {
                "connect_timeout": _CONNECT_SECONDS,
                # For what has no deadline of its own: the handshake, callers' transactions, streamed rows. A call with
                # a deadline ends before.
                "read_timeout": calls.CALL_SECONDS + 1,
                "write_timeout": calls.CALL_SECONDS + 1,
                "charset": "utf8mb4",
                "autocommit": True,
                "init_command": _SESSION,
                "program_name": "stanchion",
            },
            "pool_size": 20,
            "max_overflow": 20,
            "pool_timeout": calls.CALL_SECONDS,
            # Our transactions end before their connection is returned to the pool, and a broken one is not returned.
            "pool_reset_on_return": None,
        }

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "do_connect")
        def options(_dialect: object, _record: object, _args: object, options: dict[str, int]) -> None:
            options["client_flag"] = options.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS

        @event.listens_for(engine, "connect")
        def settings(connection: drivers.NewConnection, _record: object) -> None:
            refuse_old(connection.server_version)
            with connection.cursor() as cursor:
                # Locks single rows, never the gaps between them; all releases accept this spelling, and no other.
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                self._limits_idling = _MARIADB.match(connection.server_version) is not None
                if self._limits_idling:
                    cursor.execute(_IDLE.format(IDLE_SECONDS))

    @contextmanager
    def unhurried(self, connection: Connection) -> Iterator[None]:
        if not self._limits_idling:
            yield
            return
        connection.exec_driver_sql(_IDLE.format(0))
        try:
            yield
        finally:
            with suppress(DBAPIError):
                connection.exec_driver_sql(_IDLE.format(IDLE_SECONDS))

    def has_push_routine(self, connection: Connection) -> bool:
        return bool(connection.execute(_PUSH_ROUTINE).scalar())

    def push_routine(self, connection: Connection | None) -> list[str]:
        # Only MariaDB replaces procedures.
        replaces = connection is not None and getattr(connection.dialect, "is_mariadb", False)
        make = statements("stanchion.stores.mariadb", "`", text=TEXT, clock=CLOCK)
        return make if replaces else [f"DROP PROCEDURE IF EXISTS {NAME}", *make]

    @contextmanager
    def lock_schema(self, connection: Connection) -> Iterator[None]:
        name = func.concat("stanchion ", func.md5(func.database()))
        if connection.scalar(select(func.get_lock(name, _SCHEMA_SECONDS))) != 1:
            raise StoreUnavailable(f"another process has been making the tables for {_SCHEMA_SECONDS} s; try again")
        try:
            yield
            # Each DDL statement commits itself, so the version must be written before the next process reads it.
            connection.exec_driver_sql("COMMIT")
        finally:
            with suppress(DBAPIError):
                connection.scalar(select(func.release_lock(name)))

    @contextmanager
    def together(self, cursor: StrictCursor) -> Iterator[Together | None]:
        batch = Batch(cursor)
        yield Together(batch.cursor(), batch.cursor, batch.sync)
        batch.sync()

    def cursor(self, driver: pymysql.Connection[StrictCursor]) -> StrictCursor:
        return driver.cursor(StrictCursor)

    def fileno(self, driver: pymysql.Connection[StrictCursor]) -> int:
        connected = driver._sock  # type: ignore[attr-defined]  # it has no public name
        if connected is None:
            raise pymysql.InterfaceError(0, "the connection is closed")
        return int(connected.fileno())

    def fault(self, error: BaseException) -> Fault:
        return fault(error)

    def is_forbidden(self, error: BaseException) -> bool:
        return is_forbidden(error)

    def is_read_only(self, error: BaseException) -> bool:
        return is_read_only(error)

    def advice(self, error: BaseException) -> str:
        return advice(error) or self.way_out

    def worth_retrying(self, error: BaseException) -> bool:
        return worth_retrying(error)

    def owns(self, connection: object) -> bool:
        return drivers.is_pymysql(connection)

    def must_be_open(self, driver: pymysql.Connection[StrictCursor]) -> None:
        drivers.must_be_open(driver)

    def async_driver(self, connection: object) -> AsyncDriver | None:
        return drivers.async_driver(connection)

    def caller_cursor(self, connection: object) -> Cursor | None:
        return drivers.mysqlclient_cursor(connection) or super().caller_cursor(connection)

    def values(self, name: str, kind: AnyType) -> SelectBase:
        if getattr(kind, "length", 0) == Name.length:
            return text(f"SELECT value FROM {self.elements(name)}").columns(column("value", Name))
        return elements(name)

    def among(self, column: str, name: str, kind: str = "text") -> str:
        return f"{column} IN :{name}"

    def among_slots(self, name: str) -> str:
        return f"(kind, queue, name) IN :{name}"

    def behind_slot(self, *columns: str) -> str:
        # Spelled out: a comparison of several columns together is no range of an index there.
        kind, queue, name = columns[:3]
        same_queue = f"{kind} = :kind AND {queue} = :queue"
        return f"({kind} > :kind OR {kind} = :kind AND {queue} > :queue OR {same_queue} AND {name} > :name)"

    def listed(self, elements: Iterable[str]) -> object:
        return sorted(elements)

    def listed_slots(self, slots: Iterable[Slot]) -> object:
        keys = list(map(tuple, sorted(slots)))  # the driver knows no other tuples
        # An UPDATE or a DELETE reads, and locks, the whole table for a list of one key, but not for a list of two.
        return keys if len(keys) > 1 else 2 * keys

    def joined(self, *texts: str) -> str:
        return f"concat({', '.join(texts)})"

    def elements(self, name: str) -> str:
        return given(f"value VARCHAR(200) {TEXT} PATH '$'", name)

    def table(self, name: str, columns: Mapping[str, Kind]) -> str:
        items = (f"{column} {_LISTED[kind]} PATH '$[{n}]'" for n, (column, kind) in enumerate(columns.items()))
        return given(", ".join(items), name)

    def returning(self, columns: Iterable[str]) -> str:
        return ""

    def by(self, index: str) -> str:
        return f"FORCE INDEX ({index})"

    def insert_ignoring(self, table: Table, values: Mapping[str, object]) -> Executable:
        return insert(table).prefix_with("IGNORE").values(values)

    def insert_ignoring_from(self, table: Table, columns: Sequence[str], rows: AnySelect) -> Executable:
        return insert(table).prefix_with("IGNORE").from_select(columns, rows)


def refuse_old(version: str) -> None:
    """Raise StoreUnavailable if a server's version lacks features that the statements need."""
    if found := _MARIADB.match(version):
        name, oldest, needed = "MariaDB", (10, 6, 0), "10.6"
    elif found := _MYSQL.match(version):
        name, oldest, needed = "MySQL", (8, 0, 17), "8.0.17"
    else:
        return  # an unknown version: its first error will show it
    release = tuple(int(part) for part in found.groups())
    if release < oldest:
        raise StoreUnavailable(
            f"the server is {name} {'.'.join(map(str, release))}, which is too old; use {name} {needed} or later"
        )


_TLS = frozenset({"ssl_ca", "ssl_capath", "ssl_cert", "ssl_check_hostname", "ssl_cipher", "ssl_key"})


_DECODING = frozenset({"use_unicode", "cursorclass", "conv", "binary_prefix", "defer_connect"})


def _options() -> frozenset[str]:
    """Return the options that a URL may have."""
    return _TLS | signature(pymysql.connections.Connection).parameters.keys()


def open_store(url: str) -> MariaDBStore:
    """Return the store in a MariaDB or MySQL database: `mysql://user:password@host:port/database`."""
    if pymysql is None:
        raise MissingExtra("mysql", "the MariaDB store")
    parsed, pool_size = address.with_pool_size(address.parsed(url))
    if parsed.drivername not in _SCHEMES:
        raise InvalidInput(
            f"use {parsed.get_backend_name()}://..., not {parsed.drivername}://...; PyMySQL is the driver"
        )
    if not parsed.database and "read_default_file" not in parsed.query:  # the file may name it
        raise InvalidInput(
            f"the URL names no database; write {parsed.get_backend_name()}://user:password@host:port/database"
        )
    address.refuse_unknown(parsed, _options())
    for name in _DECODING & parsed.query.keys():
        if name != "use_unicode" or parsed.query[name] not in ("1", "true"):
            raise InvalidInput(f"the option {name} changes the driver's replies, so the store can't use it; remove it")
    return MariaDBStore(Database(parsed.set(drivername="mysql+pymysql"), MariaDBDialect(), pool_size))
