"""Sessions of PostgreSQL: their settings, directly or through a pooler in transaction mode.

The parameters of the hot statements do not change their plan, and planning takes longer than running them. If the
server overestimates a table, JIT compilation of the claim of lanes would take a second each time. A plan that reads a
whole table because it is small would stay in use until the server has analyzed the grown table.

A pooler refuses these settings at the start of a connection, or drops them, and another session may run the next
transaction. So there they are sent with each transaction, in the same round trip.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Self, cast

import psycopg
from psycopg.abc import Params, Query
from psycopg.pq import TransactionStatus

from stanchion.errors import StoreUnavailable
from stanchion.stores.postgres.connections.errors import is_pooled_away
from stanchion.stores.postgres.connections.refusals import Refusals
from stanchion.stores.postgres.connections.shared_statements import SharedStatements
from stanchion.stores.sql.engine.dialect import IDLE_SECONDS
from stanchion.stores.sql.engine.runner import CursorRunner, Row

CONNECT_SECONDS = 5
APPLICATION = "stanchion"
DEFAULTS: Mapping[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "application_name": APPLICATION,
    # Otherwise the database's: the client could not send characters that it lacks, and the error would have no code.
    "client_encoding": "utf8",
}
"""Options of every connection."""

_DRIVERS = frozenset({"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"})
"""Options of psycopg, which the client library does not know."""

_IDLE = "idle_in_transaction_session_timeout"
_CHECK_CLIENT = "client_connection_check_interval", "1s"
_UNHURRIED = f"SET LOCAL {_IDLE} = 0"


PLANNER = {"plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off"}
"""What keeps the plans of statements with parameters: by indexes, for any values, without compiling them."""


class Session(psycopg.Connection[Row]):
    """A connection of our own."""

    pooled = False
    """The session may be another one for each transaction."""
    hurried = True
    """Transactions may not idle for long."""
    planned = False
    """The pooler's sessions have the settings of the planner, as their role does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.settings = {**PLANNER, _IDLE: f"{IDLE_SECONDS:.0f}s"}
        self.shared = SharedStatements()
        """The prepared statements of a pooled session."""

    def tune(self) -> None:
        """Set the settings for the session, unless a pooler, which gives its clients other process ids, owns it."""
        shown = (f"current_setting('{name}')" for name in PLANNER)
        each = (f"set_config('{name}', '{value}', false)" for name, value in self.settings.items())
        ours = (f"CASE WHEN pg_backend_pid() = %(pid)s THEN {one} END" for one in each)
        found = self.execute(f"SELECT {', '.join((*shown, *ours))}", {"pid": self.info.backend_pid}).fetchall()[0]
        if found[-1] is None:
            self.pool()
            if found[: len(PLANNER)] == tuple(PLANNER.values()):
                self.planned = True
                self.settings = {_IDLE: self.settings[_IDLE]}
        self._end_with_its_client()

    def _end_with_its_client(self) -> None:
        """Have the server end a statement soon after its client is gone, such as a call cut off at its deadline.

        It would otherwise wait on for the lock that it waits for, and hold the rows that it has locked before.
        """
        with suppress(psycopg.Error):  # servers on Windows can't
            self.execute("SELECT set_config(%s, %s, %s)", [*_CHECK_CLIENT, self.pooled])
            if self.pooled:
                self.settings.update([_CHECK_CLIENT])

    def pool(self) -> None:
        """Treat the session as one of a pooler."""
        self.pooled = True
        self._prepared = self.shared

    def begin(self) -> None:
        """Begin a transaction with the settings, on a pooled session."""
        self.run("BEGIN")
        for name, value in self.settings.items():
            self.run(f"SET LOCAL {name} = '{value}'")
        if not self.hurried:
            self.run(_UNHURRIED)
        if self.shared.missed and not _collects(self):
            self.shared.complete(self)

    def run(self, statement: str) -> None:
        """Run a statement whose result is not needed, or collect it: a cursor would send it immediately."""
        if self._pipeline is None:
            psycopg.RawCursor(self).execute(statement)
            return
        self._pipeline.command_queue.append(partial(self.pgconn.send_query_params, statement.encode(), None))
        self._pipeline.result_queue.append(None)

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """Let transactions of the block idle without a time limit."""
        self.hurried = False
        try:
            if not self.pooled:
                self.execute(f"SET {_IDLE} = 0")
            yield
        finally:
            self.hurried = True
            if not self.pooled:
                with suppress(psycopg.Error):
                    self.execute(f"SET {_IDLE} = '{self.settings[_IDLE]}'")


class PooledCursor(psycopg.RawCursor[Row]):
    """A cursor on a pooled session: outside a transaction, each statement becomes one, with the settings."""

    def begin(self) -> None:
        """Begin a transaction with the settings."""
        session = _session(self)
        with nullcontext() if _collects(session) else together(session):
            session.begin()

    def execute(
        self, query: Any, params: Params | None = None, *, prepare: bool | None = True, binary: bool | None = None
    ) -> Self:
        _run(
            _session(self),
            lambda: super(PooledCursor, self).execute(query, params, prepare=prepare, binary=binary),
        )
        return self

    def executemany(self, query: Query, params_seq: Iterable[Params], *, returning: bool = False) -> None:
        rows = list(params_seq)
        _run(_session(self), lambda: super(PooledCursor, self).executemany(query, rows, returning=returning))


def cursor_of(run: CursorRunner) -> psycopg.Cursor[Row]:
    """Return the cursor of a runner on a connection of psycopg."""
    if not isinstance(run.cursor, psycopg.Cursor):
        raise TypeError(f"not a cursor of psycopg: {run.cursor!r}")
    return run.cursor


def _session(cursor: PooledCursor) -> Session:
    return cast("Session", cursor.connection)


def _collects(session: Session) -> bool:
    """Return whether statements are collected, which may have begun a transaction."""
    return session._pipeline is not None


def _is_open(session: Session) -> bool:
    return session.pgconn.transaction_status != TransactionStatus.IDLE


def _run(session: Session, work: Callable[[], object]) -> None:
    """Run a statement: in the open transaction, or else in a new one, in one round trip."""
    try:
        if session.planned or _collects(session) or _is_open(session):
            work()
        else:
            _run_alone(session, work)
    except psycopg.Error as error:
        if not is_pooled_away(error):
            raise
        session.shared.missed = True
        if _collects(session) or _is_open(session):
            raise
        _run_alone(session, work)


def _run_alone(session: Session, work: Callable[[], object]) -> None:
    try:
        with together(session):
            session.begin()
            work()
            session.run("COMMIT")
    except BaseException:
        with suppress(psycopg.Error):
            if _is_open(session):
                session.run("ROLLBACK")
        raise


@contextmanager
def together(connection: psycopg.Connection[object]) -> Iterator[psycopg.Pipeline | None]:
    """Send the statements of the block together; None if the client library can't, or the session lacks statements."""
    if not psycopg.Pipeline.is_supported() or (isinstance(connection, Session) and connection.shared.missed):
        yield None
        return
    try:
        with connection.pipeline() as pipeline:
            yield pipeline
    except psycopg.Error as error:
        if isinstance(connection, Session) and is_pooled_away(error):
            connection.shared.missed = True
        raise


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for what psycopg logs of our sessions: that a pipeline or COPY could not be ended, after an error.

    It is the same error that is raised and logged; while a server is away, each call would log it.
    """
    ended = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return not isinstance(getattr(ended, "connection", None) or getattr(ended, "_conn", None), Session)


logging.getLogger("psycopg").addFilter(_is_news)


class Sessions:
    """Opens sessions."""

    def __init__(self) -> None:
        self._refusals = Refusals()

    def open(self, args: Sequence[str], options: Mapping[str, Any]) -> Session:
        """Return a session in autocommit mode, with its settings."""
        try:
            session = Session.connect(*args, **options, autocommit=True)
        except psycopg.OperationalError as error:
            own = {name: value for name, value in options.items() if name not in _DRIVERS}
            self._refusals.explain(error, psycopg.conninfo.make_conninfo(*args, **own))
            raise
        try:
            refuse_unchecked(session)
            session.tune()
        except BaseException:
            session.close()
            raise
        return session


def refuse_unchecked(connection: psycopg.Connection[object]) -> None:
    """Raise StoreUnavailable for a database that stores bytes of any encoding."""
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        raise StoreUnavailable(
            f"the database {connection.info.dbname} has the encoding SQL_ASCII, which takes bytes of any encoding, so "
            f"text may not come back as it was written; use a database made with ENCODING 'UTF8' TEMPLATE template0",
            lasting=True,
        )
