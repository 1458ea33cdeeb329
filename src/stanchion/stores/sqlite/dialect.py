"""SQLite: embedded, the default. One file, any number of processes on one machine."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    Function,
    LargeBinary,
    String,
    Table,
    TextClause,
    bindparam,
    cast,
    event,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from stanchion.stores.fields.jobs import Kind
from stanchion.stores.records import calls
from stanchion.stores.rules.plain_push import NAME, UNPRINTABLE
from stanchion.stores.rules.undeliverable import TEXTS
from stanchion.stores.sql.elements import AnySelect, AnyType, EngineOptions
from stanchion.stores.sql.engine.awaited import AsyncDriver
from stanchion.stores.sql.engine.dialect import CLOCK_OFFSET, Dialect, Fault
from stanchion.stores.sql.engine.runner import Cursor, Row, Runner
from stanchion.stores.sql.engine.schema import jobs
from stanchion.stores.sql.engine.turns import WriteLock
from stanchion.stores.sql.jobs.plain_push import statements
from stanchion.stores.sql.reading.stats import first_due
from stanchion.stores.sqlite import drivers
from stanchion.stores.sqlite.capabilities import CAPABILITIES
from stanchion.stores.sqlite.connections import ARE_UTF8, BUSY_SECONDS, NOW, prepare
from stanchion.stores.sqlite.cursor import ROW_TYPES, FittingCursor
from stanchion.stores.sqlite.misfits import HAS_ID, RIGHT_TYPES
from stanchion.stores.sqlite.processes.file import StoreFile
from stanchion.stores.sqlite.processes.wakeup import FileWatch
from stanchion.stores.sqlite.processes.writers import GIVE_WAY_SECONDS, LONG_SECONDS, WriterQueue

_POLL_SECONDS, _LATER_SECONDS = (0.0002, 0.001), (0.002, 0.008)
"""Seconds between two attempts of a writer to get the lock: at first, and after _SOON_SECONDS, as frequent attempts of
many writers slow down the holder."""
_SOON_SECONDS = 0.02
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL})
_DATA = frozenset({sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH})
_UNUSABLE = frozenset(
    {
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_READONLY),
        *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
    }
)
_ADVICE = {
    sqlite3.SQLITE_FULL: "make room on the disk, then try again",
    sqlite3.SQLITE_NOTADB: "name a file of SQLite, or one that is not there yet",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore a backup, or save what remains with sqlite3's .recover",
}
_FILES = text("SELECT file FROM pragma_database_list")
_FREQUENT = ' etaoinsrhldcumfpgwybvkxjqz0123456789",:{}[]._-/'
"""ASCII characters that JSON has most, the first ones to be compared with."""
_DIFFERENT_MAX = 64
"""Maximum number of different non-ASCII characters checked in a plain push: each may cost 10 ms per megabyte."""


class SqliteDialect(Dialect):
    """SQLite in WAL mode."""

    capabilities = CAPABILITIES
    names = ("sqlite",)
    errors = (sqlite3.Error,)
    driver_names = drivers.NAMES
    single_writer, remote, makes_schema = True, False, True
    begin, locking, locking_free = "BEGIN IMMEDIATE", "", ""
    way_out = "check that the path is right, that the folder exists, is writable and lies on a local disk"
    rights = "let this user write to the file and its folder, where further files are made"
    now = literal_column(NOW, BigInteger) + CLOCK_OFFSET

    new_identity = "lower(hex(randomblob(16)))"
    identity = "identity"
    claimable = (text(HAS_ID),)

    def __init__(self, file: StoreFile, synchronous: str, writers: WriterQueue, write_lock: WriteLock) -> None:
        self._file, self._synchronous = file, synchronous
        self.signals = self.watch = FileWatch(file, first_due(self))
        self._writers, self.write_lock = writers, write_lock

    def engine_options(self) -> EngineOptions:
        return {
            "connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False},
            "pool_size": 8,
            "max_overflow": 100,
            "pool_timeout": calls.CALL_SECONDS,
        }

    def is_there(self) -> bool:
        return self._file.place() is not None

    def prepare(self, engine: Engine) -> None:
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "checkout", self._must_be_there)
        self._file.gate.closes(lambda: engine.pool.dispose())  # the pool stays in use

    def _connect(
        self, _dialect: object, record: ConnectionPoolEntry, _args: object, options: Mapping[str, object]
    ) -> sqlite3.Connection:
        connection, record.info["place"] = self._file.connect(**options)
        prepare(connection, self._synchronous)
        return connection

    def _must_be_there(self, _connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        """Drop connections to a file that is no longer at the path; opening the next one may raise."""
        if record.info["place"] != self._file.place():
            raise InvalidatePoolError

    def has_push_routine(self, connection: Connection) -> bool:
        # One of an older release has another text.
        there = connection.scalars(text(f"SELECT sql FROM sqlite_master WHERE tbl_name = '{NAME}'"))
        return set(there) == {*self.push_routine(None)}

    def push_routine(self, connection: Connection | None) -> list[str]:
        unprintable = ", ".join(f"{first}, {ord('-')}, {last}" for first, last in UNPRINTABLE)
        ascii_codes = ", ".join(map(str, dict.fromkeys([*map(ord, _FREQUENT), *range(1, 128)])))
        # Programs may give bytes for them, which are no text to SQLite.
        texts = {name: f"CAST(NEW.{name} AS TEXT)" for name in ("payload", "args", "headers", "limits")}
        values: dict[str, object] = {
            "unprintable": unprintable,
            "ascii": ascii_codes,
            "different_max": _DIFFERENT_MAX,
            **texts,
        }
        make = statements("stanchion.stores.sqlite", '"', **values)
        return make if connection is None else [f"DROP VIEW IF EXISTS {NAME}", *make]

    def start(self, cursor: Cursor, *, durable: bool = True) -> None:
        # SQLite itself retries less and less often, down to ten times a second: if a busy worker holds the lock most of
        # the time, such a process would wait for very long.
        began, first, waited = time.monotonic(), False, 0.0
        cursor.execute("PRAGMA busy_timeout=0")
        try:
            while True:
                first = first or (waited > LONG_SECONDS and self._writers.go_first())
                if first or waited > GIVE_WAY_SECONDS or not self._writers.goes_first():
                    try:
                        cursor.execute(self.begin)
                        break
                    except sqlite3.OperationalError as error:
                        if self.fault(error) is not Fault.BUSY or waited > BUSY_SECONDS:
                            raise
                often = first or waited < _SOON_SECONDS
                time.sleep(random.uniform(*(_POLL_SECONDS if often else _LATER_SECONDS)))  # noqa: S311 - spreading load
                waited = time.monotonic() - began
            if waited > GIVE_WAY_SECONDS and not first:
                self._writers.ignore()
        finally:
            if first:
                self._writers.leave()
            cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")

    @contextmanager
    def undurable(self, cursor: Cursor) -> Iterator[None]:
        if self._synchronous not in ("full", "extra"):
            yield
            return
        cursor.execute("PRAGMA synchronous=normal")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA synchronous={self._synchronous}")

    def cursor(self, driver: sqlite3.Connection) -> sqlite3.Cursor:
        cursor = driver.cursor(FittingCursor)
        cursor.row_factory = None
        return cursor

    def fault(self, error: BaseException) -> Fault:
        if not isinstance(error, sqlite3.DatabaseError):
            return Fault.OTHER
        code = _code_of(error)
        for codes, fault in ((_BUSY, Fault.BUSY), (_UNUSABLE, Fault.LOST), (_DATA, Fault.DATA)):
            if code in codes:
                return fault
        return Fault.OTHER

    def advice(self, error: BaseException) -> str:
        return _ADVICE.get(_code_of(error), self.way_out)

    def is_forbidden(self, error: BaseException) -> bool:
        return _code_of(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)

    def is_old_snapshot(self, error: BaseException) -> bool:
        return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT

    def worth_retrying(self, error: BaseException) -> bool:
        return self.fault(error) is Fault.BUSY

    def owns(self, connection: object) -> bool:
        return isinstance(connection, sqlite3.Connection)

    def must_be_open(self, driver: sqlite3.Connection) -> None:
        drivers.must_be_open(driver)

    def async_driver(self, connection: object) -> AsyncDriver | None:
        return drivers.async_driver(connection)

    def is_strange(self, error: BaseException) -> bool:
        # It has no separate code: our statements can fail so only if a table or a column is missing.
        return isinstance(error, sqlite3.OperationalError) and _code_of(error) == sqlite3.SQLITE_ERROR

    def is_same_place(self, run: Runner) -> bool:
        """Return whether one of the connection's files is the store's own: a copy of the file has its identity."""
        self._file.check()
        with suppress(OSError):
            own = os.stat(self._file.path)
            return any(file and os.path.samestat(own, os.stat(file)) for (file,) in run.rows(_FILES))
        return False

    def values(self, name: str, kind: AnyType) -> AnySelect:
        return select(func.json_each(bindparam(name, type_=String)).table_valued("value").c.value)

    def among(self, column: str, name: str, kind: str = "text") -> str:
        return f"{column} IN (SELECT value FROM json_each(:{name}))"

    def among_slots(self, name: str) -> str:
        return f"(kind, queue, name) IN (SELECT kind, queue, name FROM {self.slots(name)})"

    def elements(self, name: str) -> str:
        return f"json_each(:{name}) AS given"

    def table(self, name: str, columns: Mapping[str, Kind]) -> str:
        items = ", ".join(f"json_extract(value, '$[{n}]') AS {column}" for n, column in enumerate(columns))
        return f"(SELECT {items} FROM json_each(:{name})) AS given"

    def readable(self) -> list[ColumnElement[bool] | TextClause]:
        # One call of Python for each row; a text would be decoded on the way, and fail the statement.
        are_utf8 = Function(ARE_UTF8, *(cast(jobs.c[name], LargeBinary) for name in TEXTS), type_=Boolean)
        return [text(RIGHT_TYPES), are_utf8]

    def fitted(self, names: Sequence[str], rows: list[Row]) -> list[tuple[object, ...]]:
        return ROW_TYPES.fitted_columns(names, rows) if rows else rows

    def insert_ignoring(self, table: Table, values: Mapping[str, object]) -> Executable:
        return insert(table).values(values).on_conflict_do_nothing()

    def insert_ignoring_from(self, table: Table, columns: Sequence[str], rows: AnySelect) -> Executable:
        return insert(table).from_select(columns, rows).on_conflict_do_nothing()


def _code_of(error: BaseException) -> int:
    """Return the primary error code, without the extended part."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
