"""Runners of statements, on our own connections and on the caller's.

A statement is built once with SQLAlchemy Core. On a connection of our driver it is compiled once and run on the bare
cursor, at a tenth of the cost of SQLAlchemy's own execution. On a caller's SQLAlchemy connection with another driver,
such as an asynchronous one, SQLAlchemy runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import CursorResult, Executable, TextClause, bindparam, event, text
from sqlalchemy.engine import Connection as AlchemyConnection
from sqlalchemy.engine import Dialect

from stanchion.stores.records.slots import Slot
from stanchion.stores.sql.engine.callers import Runs, at_once
from stanchion.stores.sql.engine.schema import Qualified

SAVEPOINT, TO_SAVEPOINT = text("SAVEPOINT stanchion"), text("ROLLBACK TO SAVEPOINT stanchion")
"""Set a savepoint, and roll back to it."""

# The caller may translate schemas of its own tables, and ours have the same names for all tenants.
_OPTIONS: Final = {"preserve_rowcount": True, "schema_translate_map": None}

T = TypeVar("T")

Row = tuple[Any, ...]
Params = Mapping[str, object]
Given = Mapping[str, object] | tuple[object, ...]
"""Parameters as the driver takes them: named, or in order."""
Asked = tuple[Executable, Params]
"""A statement and its parameters."""


class Cursor(Protocol):
    """A cursor of any driver; each has types of its own for statements and parameters."""

    def execute(self, sql: Any, params: Any = ..., /) -> object:
        """Run a statement."""

    def executemany(self, sql: Any, params: Any, /) -> object:
        """Run a statement for each of these parameters."""

    def fetchall(self) -> Any:
        """Return the rows of the last statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed."""


class OwnCursor(Cursor, Protocol):
    """A cursor on a connection of our own."""

    def fetchmany(self, size: int = ..., /) -> Any:
        """Return up to so many rows."""

    def close(self) -> None:
        """Free what the cursor holds."""


class Runner(Protocol):
    """Runs statements in the open transaction, whatever it is."""

    joined: bool
    """The transaction is a caller's; its snapshot may be as old as its beginning."""
    woken: set[str]
    """The queues whose listeners are woken after the commit."""
    clock: int | None
    """The database's clock, if it was just read together with something else; used once."""
    guarded: bool
    """The runner is in a caller's transaction that was not yet found to be in the store's own database: each changing
    statement must check that itself, by the parameter `identity`."""
    freed: Counter[Slot]
    """Slots that the transaction has freed, with their number; 0: the slot may have a new head of line."""
    passed_over: set[Slot]
    """Free slots whose waiters were locked by others."""

    ended: set[str]
    """The jobs that have ended; their waiters are notified after the commit."""

    def rows(self, statement: Executable, params: Params | None = None) -> list[Row]:
        """Run a statement; return its rows."""

    def change(self, statement: Executable, params: Params | None = None) -> int:
        """Run a statement; return the number of rows it changed."""

    def change_each(self, statement: Executable, batch: Sequence[Params]) -> int:
        """Run a statement once for each set of parameters; return the number of rows changed in all."""

    def send(self, statement: Executable, params: Params | None = None) -> None:
        """Run a statement whose result is not needed; it may be sent together with the next one whose result is."""

    def send_each(self, statement: Executable, batch: Sequence[Params]) -> None:
        """Send a statement once for each set of parameters."""

    def all_rows(self, asked: Sequence[Asked], *, last: bool = False) -> list[list[Row]]:
        """Run statements in order, together where the driver can; return the rows of each.

        `last`: the transaction does nothing else, so it may be committed with them, unless it is a caller's.
        """


class InOrder(Protocol):
    """Puts named values in the order of the parameters of a statement."""

    def __call__(self, named: Mapping[str, T], /) -> tuple[T, ...]: ...


class Compiled(NamedTuple):
    """A statement in the driver's SQL."""

    sql: str
    fixed: dict[str, object]
    """The values of its constant parameters."""
    positions: InOrder | None
    """For a driver with positional parameters."""
    names: frozenset[str]


class Compiler:
    """Compiles statements to the driver's SQL, each once."""

    def __init__(self, dialect: Dialect, qualified: Qualified) -> None:
        self._dialect, self._qualified = dialect, qualified
        self._cache: WeakKeyDictionary[Executable, Compiled] = WeakKeyDictionary()

    def compiled(self, statement: Executable) -> Compiled:
        """Return the driver's form of a statement."""
        known = self._cache.get(statement)
        if known is None:
            known = self._cache[statement] = self._compile(statement)
        return known

    def _compile(self, statement: Executable) -> Compiled:
        done = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]  # all of SQLAlchemy's have it
        fixed = {name: value for name, value in done.params.items() if value is not None}
        positions = None if done.positiontup is None else _in_order(tuple(done.positiontup))
        return Compiled(self._qualified(str(done)), fixed, positions, frozenset(done.params))


def _in_order(names: tuple[str, ...]) -> InOrder:
    def few(named: Mapping[str, T], /) -> tuple[T, ...]:
        return tuple(named[name] for name in names)

    return few if len(names) < 2 else itemgetter(*names)  # itemgetter of one name returns no tuple


class Together(NamedTuple):
    """Cursors that collect statements, and send them together when the rows of one are requested."""

    cursor: Cursor
    another: Callable[[], Cursor]
    """Makes a further cursor."""
    sync: Callable[[], None]
    """Waits until all statements are carried out."""


class Open(NamedTuple):
    """An open transaction: its cursor, and how to send several statements together, if the driver can."""

    cursor: Cursor
    together: Together | None = None
    commit: Callable[[], None] | None = None
    """Commits together with the last statements."""


class CursorRunner:
    """Runs statements on a DBAPI cursor. `given`: the parameters that every statement may use."""

    def __init__(
        self,
        cursor: Cursor,
        compiler: Compiler,
        given: Params,
        *,
        joined: bool = False,
        together: Together | None = None,
        commit: Callable[[], None] | None = None,
    ) -> None:
        """`together`: sends several statements at a time; `commit`: commits the transaction with them."""
        self.cursor, self._compiler, self._given = cursor, compiler, given
        self._together, self._commit = together, commit
        self.joined = joined
        self.woken: set[str] = set()
        self.clock: int | None = None
        self.guarded = False
        self.freed: Counter[Slot] = Counter()
        self.passed_over: set[Slot] = set()
        self.ended: set[str] = set()

    def rows(self, statement: Executable, params: Params | None = None) -> list[Row]:
        self.execute(statement, params)
        rows: list[Row] = self.cursor.fetchall()
        return rows

    def change(self, statement: Executable, params: Params | None = None) -> int:
        self.execute(statement, params)
        return self._changed(self.cursor)

    def send(self, statement: Executable, params: Params | None = None) -> None:
        self.execute(statement, params, self._cursor_for_sending())

    def all_rows(self, asked: Sequence[Asked], *, last: bool = False) -> list[list[Row]]:
        if self._together is None:
            return [self.rows(*one) for one in asked]
        cursors = [self._together.another() for _ in asked]
        for cursor, (statement, params) in zip(cursors, asked, strict=True):
            self.execute(statement, params, cursor)
        if last and self._commit is not None:
            self._commit()
        return [cursor.fetchall() for cursor in cursors]

    def change_each(self, statement: Executable, batch: Sequence[Params]) -> int:
        return self._changed(self._send_each(statement, batch)) if batch else 0

    def send_each(self, statement: Executable, batch: Sequence[Params]) -> None:
        if batch:
            self._send_each(statement, batch)

    def change_columns(self, statement: Executable, columns: Mapping[str, Iterable[object]]) -> None:
        """Run a statement once for each row of these columns, as many times as the shortest one has values."""
        compiled = self._compiler.compiled(statement)
        if compiled.positions is not None:
            self.cursor.executemany(compiled.sql, zip(*compiled.positions(columns), strict=False))
            return
        rows = zip(*columns.values(), strict=False)
        self.cursor.executemany(compiled.sql, [dict(zip(columns, row, strict=True)) for row in rows])

    def _send_each(self, statement: Executable, batch: Sequence[Params]) -> Cursor:
        """Run a statement for each set of parameters; return the cursor with the number of changed rows."""
        compiled = self._compiler.compiled(statement)
        base = {**self._given, **compiled.fixed}
        if not compiled.names.isdisjoint(base):
            batch = [{**base, **params} for params in batch]
        cursor = self._cursor_for_sending()
        cursor.executemany(compiled.sql, batch if compiled.positions is None else map(compiled.positions, batch))
        return cursor

    def _cursor_for_sending(self) -> Cursor:
        """Return a separate cursor for statements that are sent: their answers may arrive after the next statement."""
        return self.cursor if self._together is None else self._together.another()

    def _changed(self, cursor: Cursor) -> int:
        if self._together is not None:
            self._together.sync()
        return int(cursor.rowcount)

    def execute(self, statement: Executable, params: Params | None, cursor: Cursor | None = None) -> None:
        """Run a statement; its rows remain in the cursor."""
        cursor = self.cursor if cursor is None else cursor
        cursor.execute(*ready(self._compiler, self._given, statement, params))


def ready(compiler: Compiler, given: Params, statement: Executable, params: Params | None) -> tuple[str, Given]:
    """Return the driver's form of a statement, and that of its parameters."""
    compiled = compiler.compiled(statement)
    named = {**given, **compiled.fixed, **(params or {})}
    return compiled.sql, named if compiled.positions is None else compiled.positions(named)


class JoinedRunner:
    """What each runner in a caller's transaction records."""

    def __init__(self) -> None:
        self.joined = True
        self.woken: set[str] = set()
        self.clock: int | None = None
        self.guarded = False
        self.freed: Counter[Slot] = Counter()
        self.passed_over: set[Slot] = set()
        self.ended: set[str] = set()


class AlchemyRunner(JoinedRunner):
    """Runs statements on a caller's SQLAlchemy connection with any driver.

    `on`: runs code that executes statements, on the event loop of an asynchronous driver.
    """

    def __init__(
        self,
        connection: AlchemyConnection,
        given: Params,
        qualified: Qualified,
        on: Runs = at_once,
    ) -> None:
        super().__init__()
        self._connection, self._given, self._qualified, self._on = connection, given, qualified, on

    def rows(self, statement: Executable, params: Params | None = None) -> list[Row]:
        return self._on(lambda: self._rows(statement, params))

    def change(self, statement: Executable, params: Params | None = None) -> int:
        return self.change_each(statement, [params or {}])

    def change_each(self, statement: Executable, batch: Sequence[Params]) -> int:
        if not batch:
            return 0
        return self._on(lambda: sum(int(self._execute(statement, params).rowcount) for params in batch))

    def send(self, statement: Executable, params: Params | None = None) -> None:
        self.change(statement, params)

    def send_each(self, statement: Executable, batch: Sequence[Params]) -> None:
        self.change_each(statement, batch)

    def all_rows(self, asked: Sequence[Asked], *, last: bool = False) -> list[list[Row]]:
        return self._on(lambda: [self._rows(*one) for one in asked])

    def _rows(self, statement: Executable, params: Params | None) -> list[Row]:
        return [tuple(row) for row in self._execute(statement, params or {})]

    def _execute(self, statement: Executable, params: Params) -> CursorResult[Any]:
        fitting = self._fitting(statement, params)
        lists = [name for name, value in fitting.items() if isinstance(value, list)]
        if lists and isinstance(statement, TextClause):
            statement = statement.bindparams(*(bindparam(name, expanding=True) for name in lists))
        with self._qualifying():
            return self._connection.execute(statement, fitting, execution_options=_OPTIONS)

    @contextmanager
    def _qualifying(self) -> Iterator[None]:
        """Qualify the names of tables in the block, which runs statements of the store only."""
        if self._qualified.schema is None:
            yield
            return

        def qualify(
            _on: object, _cursor: object, sql: str, given: object, _context: object, _many: bool
        ) -> tuple[str, object]:
            return self._qualified(sql), given

        event.listen(self._connection, "before_cursor_execute", qualify, retval=True)
        try:
            yield
        finally:
            event.remove(self._connection, "before_cursor_execute", qualify)

    def _fitting(self, statement: Executable, params: Params) -> dict[str, object]:
        names = _compiler(self._connection.dialect).compiled(statement).names
        return {name: value for name, value in {**self._given, **params}.items() if name in names}


_shared: dict[tuple[object, ...], Compiler] = {}


def compiler_for(dialect: Dialect, qualified: Qualified) -> Compiler:
    """Return the compiler for a driver, its cursor and its server, whose version a dialect knows once connected."""
    server = dialect.server_version_info, getattr(dialect, "is_mariadb", None)
    kind = (dialect.name, dialect.driver, dialect.paramstyle, *server, qualified)
    return _shared.get(kind) or _shared.setdefault(kind, Compiler(dialect, qualified))


@lru_cache(maxsize=16)
def _compiler(dialect: Dialect) -> Compiler:
    """Return the compiler for the dialect of a caller's engine."""
    return Compiler(dialect, Qualified())
