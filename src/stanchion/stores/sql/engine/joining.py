"""Joining the caller's transaction, which must be in the store's own database.

The row of stanchion_meta holds an identity, made once by the server. A transaction that reads the same identity in the
same place reaches the store's tables. Each call checks it, as a connection may switch to another database or schema
between two calls (`USE`, `search_path`, `ATTACH`). On frequent calls the check is free: it is sent with the clock, or
is part of the statement that stores jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Executable, String, literal_column, select
from sqlalchemy.engine import Connection

from stanchion.errors import CannotJoin
from stanchion.stores.sql.engine.awaited import AwaitedRunner
from stanchion.stores.sql.engine.callers import Caller, caller_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import AUTOCOMMIT, Dialect, cause_of
from stanchion.stores.sql.engine.runner import AlchemyRunner, CursorRunner, Runner
from stanchion.stores.sql.engine.schema import meta


@contextmanager
def joined(database: Database, transaction: object, *, guarded: bool = False) -> Iterator[Runner]:
    """Lend a runner of statements inside the caller's transaction; see `callers` for the forms it may have.

    Raises CannotJoin for anything else, and for a transaction on another database. `guarded`: the first statement
    checks the identity itself. After the block, the queues and jobs that the runner has recorded are announced, once
    the transaction is committed.
    """
    with caller_of(transaction) as caller:
        run = _runner(database, caller)
        if caller.connection is None or caller.connection.engine is not database.engine:
            if guarded and database.identity and _is_known(database, caller.raw()):
                run.guarded = True
            else:
                _read_first(database, run)
                if guarded:
                    with suppress(TypeError):  # it takes no weak reference
                        database.joined.add(caller.raw())
        with _told(database, run):
            yield run
            if run.woken or run.ended:
                database.dialect.announce_in(caller, run, run.woken, run.ended)


@contextmanager
def _told(database: Database, run: Runner) -> Iterator[None]:
    """Say what is wrong with the caller's transaction, where the database's error does not."""
    try:
        yield
    except Exception as error:
        if run.guarded and database.dialect.is_strange(cause_of(error)):
            raise _elsewhere(database) from error
        if database.dialect.is_old_snapshot(cause_of(error)):
            raise CannotJoin(
                "the transaction reads an old snapshot, as others have written since its first read, so it can write "
                "no more: roll it back, and begin it with a write, such as BEGIN IMMEDIATE"
            ) from error
        raise


def must_be_here(database: Database, run: Runner) -> None:
    """Raise CannotJoin if a guarded runner is in another database than the store."""
    found = _identity(database, run)
    if database.identity is None or found != database.identity:
        _own(database)
    if found is None or found != database.identity:
        raise _elsewhere(database)
    run.guarded = False


def _read_first(database: Database, run: Runner) -> None:
    dialect = database.dialect
    if dialect.has_tables(run) and dialect.is_same_place(run):
        must_be_here(database, run)
    else:
        raise _elsewhere(database)


def _own(database: Database) -> None:
    """Read the store's own identity, which changes if its tables are recreated."""
    database.identity = database.read(lambda run: _identity(database, run))
    if database.identity is None:
        raise CannotJoin(
            "outside of tx there are no tables of the store, or none that are up to date: call app.setup(), or commit "
            "what makes them, before a transaction enqueues"
        )


def _identity(database: Database, run: Runner) -> str | None:
    """Read the identity and, with it, the clock; None if there is no identity."""
    try:
        found = run.rows(database.dialect.once(_clock_and_identity))
    except Exception as error:
        if database.dialect.is_strange(cause_of(error)):
            return None
        raise
    run.clock = int(found[0][0]) if found else None
    return found[0][1] if found else None


def _clock_and_identity(dialect: Dialect) -> Executable:
    return select(dialect.now, literal_column(dialect.identity, String)).select_from(meta)


def _elsewhere(database: Database) -> CannotJoin:
    shown = database.shown.render_as_string(hide_password=True)
    return CannotJoin(
        f"tx is in another database, or another schema, than the queue, which is in {shown}; both must be in one to "
        f"commit as one"
    )


def _is_known(database: Database, driver: object) -> bool:
    try:
        return driver in database.joined
    except TypeError:  # it takes no weak reference
        return False


def _runner(database: Database, caller: Caller) -> Runner:
    dialect, driver = database.dialect, caller.driver
    if caller.connection is not None:
        return _alchemy_runner(database, caller, caller.connection)
    if (asynchronous := dialect.async_driver(driver)) is not None:
        return AwaitedRunner(asynchronous, database.compiler_of(driver), database.given())
    if (cursor := dialect.caller_cursor(driver)) is None:
        raise _stranger(database, driver)
    if dialect.owns(driver):
        dialect.must_be_open(driver)
    return CursorRunner(cursor, database.compiler_of(driver), database.given(), joined=True)


def _alchemy_runner(database: Database, caller: Caller, connection: Connection) -> Runner:
    theirs, dialect = connection.dialect.name, database.dialect
    if theirs not in dialect.names:
        ours = dialect.capabilities.name
        raise CannotJoin(f"tx is on {theirs}, the queue on {ours}; both must be in one database to commit as one")
    if not connection.in_transaction():
        caller.run(connection.begin)  # as its first statement would do
    driver: object = caller.raw()
    if not dialect.owns(driver):
        # Of the store's own driver the state is known: other stores of this package begin by a statement.
        if connection.engine is not database.engine and connection._is_autocommit_isolation():
            raise CannotJoin(AUTOCOMMIT)
        return AlchemyRunner(connection, database.given(), dialect.qualified, caller.run)
    dialect.must_be_open(driver)
    return CursorRunner(dialect.cursor(driver), database.compiler_of(driver), database.given(), joined=True)


def _stranger(database: Database, transaction: object) -> CannotJoin:
    return CannotJoin(
        f"tx must be a transaction of {database.dialect.capabilities.name}, not "
        f"{type(transaction).__module__}.{type(transaction).__qualname__}: pass a SQLAlchemy Session or Connection, or "
        f"their async forms, Django's connection, or an open connection of {database.dialect.driver_names}"
    )
