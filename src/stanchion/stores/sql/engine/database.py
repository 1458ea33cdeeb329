"""Connections, transactions, deadlines, and safe retries."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import TypeVar
from weakref import WeakSet

from sqlalchemy import Executable, create_engine, event, select
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import InvalidInput, StanchionError, StoreUnavailable
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.leases.locked_leases import LockedLeases
from stanchion.stores.sql.engine.deadlines import DEADLINES
from stanchion.stores.sql.engine.dialect import Dialect, Fault, cause_of
from stanchion.stores.sql.engine.failure_messages import message_of_failure
from stanchion.stores.sql.engine.runner import (
    Asked,
    Compiler,
    CursorRunner,
    Open,
    OwnCursor,
    Params,
    Row,
    Runner,
    compiler_for,
)
from stanchion.stores.sql.engine.turns import AllButOne, Turns

T = TypeVar("T")
C = TypeVar("C")

_QUERIES_IN_ONE = 500
"""Queries that one transaction makes at most, where only their number matters."""


class Database:
    """A pool of connections in autocommit mode, and explicit transactions on them."""

    def __init__(self, url: URL, dialect: Dialect, pool_size: int | None = None) -> None:
        """`pool_size`: maximum number of connections; None: the dialect's."""
        self.url, self.dialect = url, dialect
        self.shown = dialect.qualified.shown(url)
        """The URL for messages, with the schema of the tables."""
        self._options = dialect.engine_options()
        if pool_size is not None:
            self._options["pool_size"], self._options["max_overflow"] = pool_size, 0
        self.clock_offset = 0.0
        self.identity: str | None = None
        """The text that identifies this database; None until it is read."""
        self.locked_leases = LockedLeases()
        self.joined: WeakSet[object] = WeakSet()
        """Callers' connections that are known to be in this database."""
        self._engine: Engine | None = None
        reset_after_fork(self)

    def begin(self) -> None:
        """Forget the connections of the parent after a fork, without closing them."""
        if self._engine is not None:
            self._engine.dispose(close=False)
            self._engine = None
        self._compiler: Compiler | None = None
        self._opening = threading.Lock()
        most = self._options["pool_size"] + self._options["max_overflow"]
        self._turns = Turns(most, self.shown.render_as_string(hide_password=True))
        self._transactions = AllButOne(self._turns)

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, made on first use."""
        if self._engine is None:
            with self._opening:
                if self._engine is None:
                    engine = create_engine(self.url, isolation_level="AUTOCOMMIT", **self._options)
                    self.dialect.prepare(engine)
                    event.listen(engine, "connect", lambda *_new: self._turns.opened())
                    self._engine = engine
        return self._engine

    @property
    def compiler(self) -> Compiler:
        """The compiler of statements; available once a connection was made."""
        if self._compiler is None:
            self._compiler = compiler_for(self.dialect.for_cursors(self.engine.dialect), self.dialect.qualified)
        return self._compiler

    def compiler_of(self, driver: object) -> Compiler:
        """Return the compiler of statements for a caller's connection."""
        theirs = self.dialect.for_driver(driver, self.engine.dialect)
        return self.compiler if theirs is None else compiler_for(theirs, self.dialect.qualified)

    def given(self) -> dict[str, object]:
        """Return the parameters that every statement may use."""
        return {
            "clock_offset": int(self.clock_offset * SECOND),
            "identity": self.identity,
            "locked_leases": self.locked_leases.until,
        }

    def now(self) -> int:
        """Return the database's clock, in microseconds."""
        return self.read(self.clock)

    def clock(self, run: Runner) -> int:
        """Return the database's clock; needs no statement if `run` has just read it."""
        known, run.clock = run.clock, None
        return int(run.rows(*self.asks_clock())[0][0]) if known is None else known

    def asks_clock(self) -> Asked:
        """Return the query for the database's clock, to be sent together with others."""
        return self.dialect.once(_now), {}

    def read(self, work: Callable[[CursorRunner], T], seconds: float | None = None) -> T:
        """Run read-only statements, each in its own transaction, within `seconds` (CALL_SECONDS)."""
        return self._call(lambda run, _again: work(run), transaction=False, seconds=seconds)

    def in_one(self, query: Executable, given: Sequence[Params]) -> list[list[Row]]:
        """Run a query for each of these sets of parameters, many in one transaction; return the rows of each."""
        found: list[list[Row]] = []
        for first in range(0, len(given), _QUERIES_IN_ONE):
            asked = [(query, params) for params in given[first : first + _QUERIES_IN_ONE]]
            found += self.write(lambda run, _again: run.all_rows(asked, last=True), together=True)  # noqa: B023 - called here
        return found

    def statement(
        self, work: Callable[[CursorRunner, bool], T], seconds: float | None = None, *, alone: bool = False
    ) -> T:
        """Run one changing statement that commits itself, within `seconds` (CALL_SECONDS).

        `work` is called with True if it is a repeat after a lost reply; it then runs in a transaction, unless it is to
        be `alone`: then each of its statements commits itself even so.
        """
        return self._call(work, transaction=False, seconds=seconds, alone=alone)

    def write(
        self,
        work: Callable[[CursorRunner, bool], T],
        seconds: float | None = None,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> T:
        """Run statements in one transaction, within `seconds` (CALL_SECONDS).

        `work` is called with True if it is a repeat after a lost reply. `durable`: see Dialect.undurable. `together`:
        where the driver supports it, statements whose answers are not needed are sent with the next one whose answer
        is.
        """
        return self._call(work, transaction=True, seconds=seconds, durable=durable, together=together)

    def look(self, work: Callable[[Connection], T]) -> T:
        """Read on a connection of SQLAlchemy, within CALL_SECONDS."""

        def attempt(_again: bool, left: float, _overdue: list[int]) -> T:
            with self._lent(lambda: self.engine.connect(), left) as connection, connection:
                return work(connection)

        return self._retried(attempt)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode."""
        try:
            with self._lent(lambda: self.engine.connect(), calls.CALL_SECONDS) as connection, connection:
                yield connection
        except DBAPIError as error:
            if (refusal := self._refusal(cause_of(error))) is None:
                raise
            raise refusal from error

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction for a caller."""
        with (
            self._transactions.turn(calls.CALL_SECONDS),
            self._writing(calls.CALL_SECONDS),  # before the connection, which its holder may need
            self.connection() as connection,
            self.dialect.unhurried(connection),
        ):
            self._begin(connection)
            try:
                yield connection
            except BaseException:
                with suppress(DBAPIError):
                    connection.exec_driver_sql("ROLLBACK")
                raise
            connection.exec_driver_sql("COMMIT")

    def _begin(self, connection: Connection) -> None:
        try:
            with closing(self.dialect.cursor(connection.connection.driver_connection)) as cursor:
                self.dialect.start(cursor)
        except self.dialect.errors as error:
            if (refusal := self._refusal(error)) is None:
                raise
            raise refusal from error

    @contextmanager
    def streaming(self, statement: Executable, params: Params) -> Iterator[OwnCursor]:
        """Run a statement without a deadline, and lend the cursor with its rows."""
        with (
            self.connection() as connection,
            closing(self.dialect.cursor(connection.connection.driver_connection)) as cursor,
        ):
            try:
                CursorRunner(cursor, self.compiler, self.given()).execute(statement, params)
                yield cursor
            except self.dialect.errors as error:
                if (refusal := self._refusal(error)) is None:
                    raise
                raise refusal from error

    def close(self) -> None:
        """Close the pool; a later call opens it again."""
        if self._engine is not None:
            self._engine.dispose()

    def _call(
        self,
        work: Callable[[CursorRunner, bool], T],
        *,
        transaction: bool,
        seconds: float | None = None,
        durable: bool = True,
        together: bool = False,
        alone: bool = False,
    ) -> T:
        def attempt(again: bool, left: float, overdue: list[int]) -> T:
            in_one = transaction or (again and not alone)
            return self._attempt(work, again, in_one, left, overdue, durable=durable, together=together)

        return self._retried(attempt, seconds)

    def _retried(self, attempt: Callable[[bool, float, list[int]], T], seconds: float | None = None) -> T:
        """Call `attempt` until it succeeds, or its error is final, within `seconds` (CALL_SECONDS).

        Its arguments: whether the reply to an earlier one was lost; the seconds left; and a list that is not empty
        once the attempt was cut off.
        """
        started, pause, again = time.monotonic(), 0.01, False
        seconds = calls.CALL_SECONDS if seconds is None else seconds
        while True:
            overdue: list[int] = []
            try:
                return attempt(again, seconds - (time.monotonic() - started), overdue)
            except Exception as error:
                cause = cause_of(error)
                fault = self.dialect.fault(cause)
                lasting = fault not in (Fault.LOST, Fault.BUSY) or not self.dialect.worth_retrying(cause)
                if lasting or time.monotonic() - started + pause > seconds:
                    if (refusal := self._refusal(cause, overdue=bool(overdue))) is None:
                        raise
                    raise refusal from error
                again = again or fault is Fault.LOST
            # A deadlock or a busy database has aborted the call without a change. After a lost connection the statement
            # may have been carried out: `again` says so.
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            pause = min(pause * 2, 0.5)

    def _attempt(
        self,
        work: Callable[[CursorRunner, bool], T],
        again: bool,
        transaction: bool,
        seconds: float,
        overdue: list[int],
        *,
        durable: bool,
        together: bool,
    ) -> T:
        end = time.monotonic() + seconds
        with (
            self._writing(seconds) if transaction else nullcontext(),
            self._driver(end - time.monotonic()) as driver,
            self._within(driver, end - time.monotonic(), overdue),
            closing(self.dialect.cursor(driver)) as cursor,
            nullcontext() if durable else self.dialect.undurable(cursor),
            _transaction(cursor, self.dialect, durable, together) if transaction else nullcontext(Open(cursor)) as on,
        ):
            if again:
                self.dialect.see_to_disk(on.cursor)
            compiler = self._compiler or self.compiler
            return work(CursorRunner(on.cursor, compiler, self.given(), together=on.together, commit=on.commit), again)

    def _within(self, driver: object, seconds: float, overdue: list[int]) -> AbstractContextManager[None]:
        if not self.dialect.remote:
            return nullcontext()
        return DEADLINES.within(self.dialect.fileno(driver), seconds, overdue)

    @contextmanager
    def _driver(self, seconds: float) -> Iterator[object]:
        """Lend the driver's own connection from the pool; a broken one is not returned to it."""
        with self._lent(lambda: (self._engine or self.engine).raw_connection(), seconds) as pooled:
            driver = pooled.driver_connection
            try:
                yield driver
            except BaseException as error:
                if not self._settled(error) or self.dialect.is_closed(driver):
                    pooled.invalidate()
                    self._drop_idle(error)
                raise
            finally:
                pooled.close()

    def _drop_idle(self, error: BaseException) -> None:
        """Close the connections in the pool after one was lost: those that are as old are lost, too."""
        if self.dialect.fault(error) is Fault.LOST and self.dialect.worth_retrying(error):
            self.engine.dispose()

    @contextmanager
    def _lent(self, connect: Callable[[], C], seconds: float) -> Iterator[C]:
        """Lend a connection in turn; if the server refuses one more, wait for one that is open."""
        deadline = time.monotonic() + seconds
        self._turns.take(seconds)
        held = True
        try:
            while True:
                try:
                    lent = connect()
                    break
                except Exception as error:
                    cause = cause_of(error)
                    if self.dialect.fault(cause) is not Fault.LOST or not self.dialect.worth_retrying(cause):
                        raise
                    held = not self._turns.refused(message_of_failure(self.dialect, self.shown, cause))
                    if held:
                        raise
                self._turns.take(deadline - time.monotonic())
                held = True
            yield lent
        finally:
            if held:
                self._turns.give()

    def _settled(self, error: BaseException) -> bool:
        """Return whether the connection can be used after this error: the server has answered, or was not called.

        Any other error, such as the timeout of a task, may have interrupted a call.
        """
        if isinstance(error, self.dialect.errors):
            return self.dialect.fault(error) is not Fault.LOST
        return isinstance(error, StanchionError)

    def _writing(self, seconds: float) -> AbstractContextManager[None]:
        # With one write lock for the whole database, threads of a process queue here instead of polling for that lock.
        return nullcontext() if (lock := self.dialect.write_lock) is None else lock.within(seconds)

    def _refusal(self, cause: BaseException, *, overdue: bool = False) -> StanchionError | None:
        """Return the error to raise for an error of the driver; None: the driver's own, as the statement is wrong."""
        match self.dialect.fault(cause):
            case Fault.OTHER:
                return None
            case Fault.DATA:
                return InvalidInput(message_of_failure(self.dialect, self.shown, cause))
        return self._unavailable(cause, lasting=not self.dialect.worth_retrying(cause), overdue=overdue)

    def _unavailable(self, cause: BaseException, *, lasting: bool = False, overdue: bool = False) -> StoreUnavailable:
        return StoreUnavailable(message_of_failure(self.dialect, self.shown, cause, overdue=overdue), lasting=lasting)


def _now(dialect: Dialect) -> Executable:
    return select(dialect.now)


@contextmanager
def _transaction(cursor: OwnCursor, dialect: Dialect, durable: bool, together: bool) -> Iterator[Open]:
    committed = False

    def commit() -> None:
        nonlocal committed
        committed = True
        dialect.commit_early(goes_on, durable=durable)

    try:
        with dialect.together(cursor) if together else nullcontext() as several:
            goes_on = cursor if several is None else several.cursor
            dialect.start(goes_on, durable=durable)
            yield Open(goes_on, several, None if several is None else commit)
            if not committed:
                goes_on.execute("COMMIT")
    except BaseException:
        with suppress(Exception):
            cursor.execute("ROLLBACK")
        raise
