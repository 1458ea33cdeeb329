"""Connections, transactions, deadlines and the retries that are safe."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from sqlalchemy import Executable, create_engine, select
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from stanchion.core.forks import reset_after_fork
from stanchion.errors import CannotJoin, StanchionError, StoreUnavailable, TaskTimeout
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.sql.engine.deadlines import Deadlines
from stanchion.stores.sql.engine.dialect import Dialect, Fault
from stanchion.stores.sql.engine.runner import Asked, Compiler, CursorRunner, Params, Runner, Together, compiler_for
from stanchion.stores.sql.engine.telling import told

T = TypeVar("T")

CALL_SECONDS = 10.0
"""No call takes longer than about this, its retries included, unless it says so because it moves very many jobs."""


class Database:
    """A pool of connections in autocommit mode, and explicit transactions on them."""

    def __init__(self, url: URL, dialect: Dialect) -> None:
        self.url, self.dialect = url, dialect
        self.clock_offset = 0.0
        self.identity: str | None = None
        """What tells this database from others, once it was read."""
        self.joined: WeakSet[Any] = WeakSet()
        """Connections of callers that were found to be in this database."""
        self._engine: Engine | None = None
        reset_after_fork(self)
        self._deadlines = Deadlines()

    def begin(self) -> None:
        """Open no connection; those of before a fork are the parent's."""
        if self._engine is not None:
            self._engine.dispose(close=False)
            self._engine = None
        self._compiler: Compiler | None = None
        self._opening = threading.Lock()
        # A database with one writer makes the threads of a process queue here, rather than poll for its lock.
        self._turn = WriteTurn() if self.dialect.single_writer else None

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, made on first use."""
        if self._engine is None:
            with self._opening:
                if self._engine is None:
                    engine = create_engine(self.url, isolation_level="AUTOCOMMIT", **self.dialect.engine_options())
                    self.dialect.prepare(engine)
                    self._engine = engine
        return self._engine

    @property
    def compiler(self) -> Compiler:
        """What statements are compiled by; ask when connected."""
        if self._compiler is None:
            self._compiler = compiler_for(self.engine.dialect)
        return self._compiler

    def given(self) -> dict[str, Any]:
        """Return the parameters that any statement may use."""
        return {"clock_offset": int(self.clock_offset * SECOND), "identity": self.identity}

    def now(self) -> int:
        """Return the database's clock."""
        return self.read(self.clock)

    def clock(self, run: Runner) -> int:
        """Return the database's clock; where `run` has read it a moment ago, without a statement."""
        known, run.clock = run.clock, None
        return int(run.rows(*self.asks_clock())[0][0]) if known is None else known

    def asks_clock(self) -> Asked:
        """Return the question for the database's clock, to be sent together with others."""
        return self.dialect.once(_now), {}

    def read(self, work: Callable[[CursorRunner], T], seconds: float = CALL_SECONDS) -> T:
        """Run statements that change nothing, each for itself, in `seconds` at most."""
        return self._call(lambda run, _again: work(run), transaction=False, seconds=seconds)

    def statement(self, work: Callable[[CursorRunner, bool], T], seconds: float = CALL_SECONDS) -> T:
        """Run one changing statement that commits itself, in `seconds` at most.

        `work` is told when it is a repeat after a lost answer, and then runs in a transaction.
        """
        return self._call(work, transaction=False, seconds=seconds)

    def write(
        self,
        work: Callable[[CursorRunner, bool], T],
        seconds: float = CALL_SECONDS,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> T:
        """Run statements in one transaction, in `seconds` at most.

        `work` is told when it is a repeat after a lost answer. `durable`: see Dialect.undurable. `together`: statements
        of which nothing is to be known go with the next one of which something is, where the driver can do that.
        """
        return self._call(work, transaction=True, seconds=seconds, durable=durable, together=together)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection whose statements commit themselves."""
        try:
            with self.engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            cause = error.orig or error
            if self.dialect.fault(cause) is Fault.OTHER:
                raise
            raise self._unavailable(cause, lasting=not self.dialect.worth_retrying(cause)) from error

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction for a caller."""
        with (
            self.connection() as connection,
            self._writing(CALL_SECONDS),
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
            if self.dialect.fault(error) is Fault.OTHER:
                raise
            raise self._unavailable(error, lasting=not self.dialect.worth_retrying(error)) from error

    @contextmanager
    def streaming(self, statement: Executable, params: Params) -> Iterator[Any]:
        """Run a statement for as long as it takes, and lend the cursor with its rows."""
        with (
            self.connection() as connection,
            closing(self.dialect.cursor(connection.connection.driver_connection)) as cursor,
        ):
            CursorRunner(cursor, self.compiler, self.given()).execute(statement, params)
            yield cursor

    def close(self) -> None:
        """Close the pool; a later call opens it anew."""
        if self._engine is not None:
            self._engine.dispose()

    def _call(
        self,
        work: Callable[[CursorRunner, bool], T],
        *,
        transaction: bool,
        seconds: float = CALL_SECONDS,
        durable: bool = True,
        together: bool = False,
    ) -> T:
        started, pause, again = time.monotonic(), 0.01, False
        while True:
            overdue: list[int] = []
            try:
                left = seconds - (time.monotonic() - started)
                return self._attempt(
                    work, again, transaction or again, left, overdue, durable=durable, together=together
                )
            except PoolTimeout as error:
                raise self._unavailable(error) from error
            except Exception as error:
                cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
                fault = self.dialect.fault(cause)
                if fault is Fault.OTHER:
                    raise
                lasting = not self.dialect.worth_retrying(cause)
                if lasting or time.monotonic() - started + pause > seconds:
                    raise self._unavailable(cause, lasting=lasting, overdue=bool(overdue)) from error
                if fault is Fault.LOST:
                    again = True
                    self.engine.dispose()
            # An abort by a deadlock or a busy database changed nothing; after a lost connection `again` says
            # that the statement may have been carried out.
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
        with (
            self._writing(seconds) if transaction else nullcontext(),
            self._driver() as driver,
            self._within(driver, seconds, overdue),
            closing(self.dialect.cursor(driver)) as cursor,
            nullcontext() if durable else self.dialect.undurable(cursor),
            _transaction(cursor, self.dialect, durable, together) if transaction else nullcontext(Open(cursor)) as on,
        ):
            if again:
                self.dialect.see_to_disk(on.cursor)
            return work(
                CursorRunner(on.cursor, self.compiler, self.given(), together=on.together, commit=on.commit), again
            )

    def _within(self, driver: Any, seconds: float, overdue: list[int]) -> AbstractContextManager[None]:
        if not self.dialect.remote:
            return nullcontext()
        return self._deadlines.within(self.dialect.fileno(driver), seconds, overdue)

    @contextmanager
    def _driver(self) -> Iterator[Any]:
        """Lend the driver's own connection from the pool; a broken one does not go back there."""
        pooled = self.engine.raw_connection()
        try:
            yield pooled.driver_connection
        except BaseException as error:
            if not self._settled(error):
                pooled.invalidate()
            raise
        finally:
            pooled.close()

    def _settled(self, error: BaseException) -> bool:
        """Tell whether the connection can be used after this error: the server answered, or wasn't asked.

        An error of another kind came from outside in the middle of a call, such as the time-out of a task.
        """
        if isinstance(error, self.dialect.errors):
            return self.dialect.fault(error) is not Fault.LOST
        return isinstance(error, StanchionError) and not isinstance(error, TaskTimeout)

    def _writing(self, seconds: float) -> AbstractContextManager[None]:
        return nullcontext() if self._turn is None else self._turn.within(seconds)

    def _unavailable(self, cause: BaseException, *, lasting: bool = False, overdue: bool = False) -> StoreUnavailable:
        return StoreUnavailable(told(self.dialect, self.url, cause, overdue=overdue), lasting=lasting)


def _now(dialect: Dialect) -> Executable:
    return select(dialect.now)


class WriteTurn:
    """Whose turn it is to write, among the threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Hold the turn for the block; wait for it at most `seconds`."""
        me = threading.get_ident()
        if self._holder == me:
            raise CannotJoin(
                "this thread has a transaction of the store open, and this call is not part of it: pass the "
                "transaction as tx=, or end it first"
            )
        if not self._lock.acquire(timeout=max(0.0, seconds)):
            raise StoreUnavailable(
                f"another thread of this process kept a transaction open for {seconds:.0f} s; make it shorter"
            )
        self._holder = me
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()


class Open(NamedTuple):
    """An open transaction: on which cursor it goes on, and how its statements are sent several at a time, if at all."""

    cursor: Any
    together: Together | None = None
    commit: Callable[[], None] | None = None
    """Has it committed after them."""


@contextmanager
def _transaction(cursor: Any, dialect: Dialect, durable: bool, together: bool) -> Iterator[Open]:
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
