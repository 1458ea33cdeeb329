"""Sessions of PostgreSQL, driven through libpq in binary format."""

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import psycopg
from psycopg import pq

from tests.servers.documentdb.errors import BackendLost, CommandError, code_of

Kind = Literal["text", "bson", "bsonsequence", "int8", "bytea"]
Value = tuple[Kind, bytes]
Row = list[bytes]

SETTINGS = """
SET search_path = documentdb_api_catalog, documentdb_api, documentdb_core, public;
SET documentdb.throwDeadlockOnCRUD = on;
SET documentdb.useFileBasedPersistedCursors = on
"""
TYPES = """
SELECT 'text'::regtype::oid, 'documentdb_core.bson'::regtype::oid, 'documentdb_core.bsonsequence'::regtype::oid,
    'int8'::regtype::oid, 'bytea'::regtype::oid
"""
GOOD = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}
TRANSACTION_TOO_OLD = "25P03"
GOING_DOWN = ("57P01", "57P02", "57P03")


class SqlError(CommandError):
    """PostgreSQL refused a statement."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(code_of(sqlstate), f"{message} [{sqlstate}]")


def text(value: str) -> Value:
    """Return a parameter."""
    return "text", value.encode()


def document(value: bytes) -> Value:
    """Return a parameter: one encoded document."""
    return "bson", value


def documents(value: bytes) -> Value:
    """Return a parameter: encoded documents, one after the other."""
    return "bsonsequence", value


def integer(value: int) -> Value:
    """Return a parameter."""
    return "int8", struct.pack("!q", value)


def as_integer(value: bytes) -> int:
    """Return the integer in a result's field."""
    return int.from_bytes(value, "big", signed=True)


class Session:
    """One session; CommandError for what PostgreSQL refuses, BackendLost when it is gone."""

    def __init__(self, address: str) -> None:
        try:
            self._connection = psycopg.connect(address, autocommit=True)
        except psycopg.OperationalError as error:
            raise BackendLost(str(error)) from error
        self._libpq = self._connection.pgconn
        self._statements: dict[str, bytes] = {}
        self._time_limit = 0
        self.run(SETTINGS)
        row = self._connection.execute(TYPES).fetchone()
        assert row is not None
        self._types = dict(zip(("text", "bson", "bsonsequence", "int8", "bytea"), row, strict=True))

    @property
    def usable(self) -> bool:
        """Whether another client can have it: alive and in no transaction."""
        return self._libpq.transaction_status == pq.TransactionStatus.IDLE

    def run(self, statements: str) -> bytes | None:
        """Run statements without parameters, and return the first value of the last, as text."""
        result = self._checked(self._libpq.exec_(statements.encode()))
        return result.get_value(0, 0) if result.ntuples else None

    def row(self, statement: str, *values: Value) -> Row:
        """Run a statement, prepared once, and return its first row."""
        rows = self.rows(statement, *values)
        return rows[0] if rows else []

    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Run a statement, prepared once, and return its rows, with empty fields for NULL."""
        name = self._statements.get(statement)
        if name is None:
            name = b"s%d" % len(self._statements)
            self._checked(self._libpq.prepare(name, statement.encode(), [self._types[kind] for kind, _ in values]))
            self._statements[statement] = name
        result = self._checked(
            self._libpq.exec_prepared(
                name, [value for _, value in values], [pq.Format.BINARY] * len(values), pq.Format.BINARY
            )
        )
        columns = range(result.nfields)
        return [[result.get_value(row, column) or b"" for column in columns] for row in range(result.ntuples)]

    def limit_time(self, milliseconds: int) -> None:
        """Let statements from now on run for so long; 0: without a limit."""
        if milliseconds != self._time_limit:
            self.run(f"SET statement_timeout = {milliseconds}")
            self._time_limit = milliseconds

    def close(self) -> None:
        """End the session; what it has not committed is rolled back."""
        self._connection.close()

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in GOOD:
            return result
        sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
        is_lost = self._libpq.status != pq.ConnStatus.OK and sqlstate != TRANSACTION_TOO_OLD
        if is_lost or sqlstate in GOING_DOWN:
            raise BackendLost(message)
        raise SqlError(sqlstate, message)


class Sessions:
    """Sessions that wait for a command; any number may be in use."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._idle: list[Session] = []
        self._lock = threading.Lock()

    def take(self) -> Session:
        """Return an idle session, or a new one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Session(self._address)

    def give_back(self, session: Session) -> None:
        """Keep the session for the next command, or close it if it can't be used."""
        if session.usable:
            with self._lock:
                self._idle.append(session)
        else:
            session.close()

    @contextmanager
    def one(self) -> Iterator[Session]:
        """Lend a session; after a loss of the server no idle session is kept."""
        session = self.take()
        try:
            yield session
        except BackendLost:
            self._forget_idle()
            raise
        finally:
            self.give_back(session)

    def _forget_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()
