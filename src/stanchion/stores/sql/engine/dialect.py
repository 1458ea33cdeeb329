"""The differences between SQL databases that the shared implementation needs to know."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Executable, SelectBase, Table, TextClause, bindparam, func
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine import Dialect as AlchemyDialect

from stanchion.stores.fields.jobs import Kind
from stanchion.stores.protocol import Listener
from stanchion.stores.records import calls
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.slots import Slot
from stanchion.stores.sql.elements import AnySelect, AnyType, EngineOptions
from stanchion.stores.sql.engine.awaited import AsyncDriver
from stanchion.stores.sql.engine.callers import Caller, announce_after_commit
from stanchion.stores.sql.engine.runner import Cursor, OwnCursor, Row, Runner, Together
from stanchion.stores.sql.engine.schema import ID_COLUMNS, Qualified
from stanchion.stores.sql.engine.turns import WriteLock

_LAST = (1 << 63) - 1
AUTOCOMMIT = (
    "the connection given as tx commits every statement by itself, so nothing could be rolled back: begin a "
    "transaction on it first, or turn its autocommit off"
)
IDLE_SECONDS = calls.CALL_SECONDS + 5
"""Seconds between two statements after which the server ends a transaction whose client has vanished; longer than any
call may take. Until then its locks block others."""


class Fault(Enum):
    """Why a database refused a call."""

    LOST = auto()
    """The connection broke; the statement may or may not have been carried out."""
    BUSY = auto()
    """A deadlock, a serialization failure, a lock timeout or a cancelled statement, without effect."""
    DATA = auto()
    """The database can't hold a value: it is too large, or its encoding lacks a character. Without effect."""
    OTHER = auto()
    """An error that a retry does not fix."""


def cause_of(error: BaseException) -> BaseException:
    """Return the driver's error behind SQLAlchemy's."""
    return getattr(error, "orig", None) or error


def _has_code(error: BaseException, codes: frozenset[object]) -> bool:
    """Return whether an error of any driver has one of these codes."""
    return not codes.isdisjoint({getattr(error, "sqlstate", None), *error.args[:1]})


T = TypeVar("T")

_made: dict[tuple[type[Dialect], object], Any] = {}

CLOCK_OFFSET: ColumnElement[int] = bindparam("clock_offset", type_=BigInteger)


class Signals(Protocol):
    """Wakes listeners, in this process and others."""

    def listen(
        self, queues: Iterable[str], finished: Iterable[str] | None = None, *, interchangeable: bool = False
    ) -> Listener:
        """Start listening, as `Store.listen` does."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake the listeners of these queues, or of the ends of these jobs, soon; returns without waiting."""

    def close(self) -> None:
        """End all waits, and the threads and connections of the wake-up."""


class Dialect(ABC):
    """One SQL database. Instances of one kind produce the same SQL, and compare equal."""

    capabilities: Capabilities
    signals: Signals
    names: tuple[str, ...]
    """SQLAlchemy's names for this kind of database."""
    driver_names: str
    """The drivers whose connections a caller may give, for messages."""
    errors: tuple[type[Exception], ...]
    """The exceptions that the driver raises."""
    keys_by_queue = stores_computed = True
    """The index of order keys begins with the queue; and computed columns are stored, else their terms are indexed."""
    single_writer: bool
    """The whole database has one write lock."""
    write_lock: WriteLock | None = None
    """That lock among the threads of this process."""
    remote: bool
    """Calls go over a socket."""
    makes_schema: bool
    """The schema is made on first use, without `stanchion setup`."""
    begin: str
    """The statement that opens a writing transaction."""
    or_lock = "ON CONFLICT DO NOTHING"
    """Ends an insert of slots; locks the rows that exist already without changing them."""
    locking = "FOR UPDATE"
    locking_free = "FOR UPDATE SKIP LOCKED"
    """Ends a read that locks rows and skips rows locked by others."""
    slot_order = "kind, queue, name"
    """The order of locks on slots: as `Slot` sorts, byte by byte."""
    rank = "rank"
    """The spelling of this column in a statement; it is a reserved word in MySQL."""
    reading = ""
    """Ends a read that sees the last commit, in a caller's transaction too; it may wait for locks."""
    writers: Executable | None = None
    """The query for names of the open transactions that may write jobs; None: the database does not tell everybody."""
    way_out: str
    """What an operator can do if the database can't be reached."""
    rights = "give the user of the URL the rights that the store's page names"
    """What an operator can do if rights are missing."""
    now: ColumnElement[int]
    """The database's clock, plus CLOCK_OFFSET."""
    claimable: tuple[ColumnElement[bool] | TextClause, ...] = ()
    """Conditions on due jobs, where the database may have some that can't be reserved."""
    new_identity: str
    """An SQL expression for a text that no other database has."""
    identity: str
    """An SQL expression that identifies a row of stanchion_meta, and no copy of it elsewhere on the same server."""
    strange: frozenset[object]
    """Error codes that say that a table, a column or the database does not exist."""
    cancelled: frozenset[object] = frozenset()
    """Error codes of statements that a time limit or an operator has cancelled."""

    qualified = Qualified()
    """Names the tables in finished SQL."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.qualified == other.qualified

    def __hash__(self) -> int:
        return hash((type(self), self.qualified))

    def once(self, make: Callable[[Dialect], T]) -> T:
        """Return the result of `make` for dialects of this kind, cached: statements, for example, are built once."""
        key = (type(self), make)
        made: T | None = _made.get(key)
        if made is None:
            made = _made.setdefault(key, make(self))
        return made

    @abstractmethod
    def engine_options(self) -> EngineOptions:
        """Return options for `create_engine`."""

    def is_there(self) -> bool:
        """Return whether there is a database to connect to, as far as that can be known without creating one."""
        return True

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most need nothing
        """Set up what each new connection needs."""

    def lock_schema(self, connection: Connection) -> AbstractContextManager[None]:
        """Keep other processes from changing the schema until the block, or else the transaction, ends."""
        return nullcontext()  # a single writer holds the write lock

    def schema_steps(self, *, new: bool) -> list[str]:
        """Return the statements that an operator runs first, in a session: for `new` tables, or for those there are."""
        return []

    def enter_schema(self, connection: Connection, *, new: bool) -> None:  # noqa: B027 - most databases have none
        """Let the rest of the transaction make and find tables in the schema, which is made for `new` ones."""

    def has_push_routine(self, connection: Connection) -> bool:
        """Return True if `stanchion_push` is there, or this user may not make it."""
        return True

    def push_routine(self, connection: Connection | None) -> list[str]:
        """Return the statements that make or replace `stanchion_push`; None: in a database without the schema."""
        return []

    def start(self, cursor: Cursor, *, durable: bool = True) -> None:
        """Begin a transaction; `durable`: see `undurable`, for a database that sets it inside the transaction."""
        cursor.execute(self.begin)

    def together(self, cursor: Any) -> AbstractContextManager[Together | None]:
        """Send the statements of a block several at a time; None if the driver can't."""
        return nullcontext()

    def commit_early(self, cursor: Cursor, *, durable: bool) -> None:
        """Send the commit of a transaction right after its last statements, before their answers arrive.

        A database that holds locks until the commit is on disk can release them earlier: only the answer must wait for
        the disk.
        """
        cursor.execute("COMMIT")

    def see_to_disk(self, cursor: Cursor) -> None:  # noqa: B027 - most need nothing
        """Make the end of the transaction wait until everything committed before it is on disk."""

    def undurable(self, cursor: Cursor) -> AbstractContextManager[None]:
        """Let a transaction in the block commit without waiting for the disk, if the database can do so cheaply."""
        return nullcontext()

    def unhurried(self, connection: Connection) -> AbstractContextManager[None]:
        """Let a caller's transaction in the block be idle without a time limit."""
        return nullcontext()

    def end_frozen_sessions(self, run: Runner) -> None:  # noqa: B027 - most need nothing
        """End sessions of ours that hold locks while their clients stand still, if the database doesn't by itself."""

    @abstractmethod
    def cursor(self, driver: Any) -> OwnCursor:
        """Return a cursor whose rows are tuples."""

    def for_cursors(self, dialect: AlchemyDialect) -> AlchemyDialect:
        """Return the SQLAlchemy dialect that compiles statements for these cursors, from the engine's own."""
        return dialect

    def fileno(self, driver: Any) -> int:
        """Return the socket number of an open connection."""
        return int(driver.fileno())

    @abstractmethod
    def fault(self, error: BaseException) -> Fault:
        """Classify an error of the driver."""

    def advice(self, error: BaseException) -> str:
        """Return what an operator can do about an error of the driver."""
        return self.way_out

    @abstractmethod
    def is_forbidden(self, error: BaseException) -> bool:
        """Return whether this user or process lacks the right to do this."""

    def is_read_only(self, error: BaseException) -> bool:
        """Return whether the server takes no writes at present, as a standby does."""
        return False

    def is_old_snapshot(self, error: BaseException) -> bool:
        """Return whether the transaction can't write because its snapshot is older than another writer's commit."""
        return False

    def worth_retrying(self, error: BaseException) -> bool:
        """Return False for a fault that time does not fix, such as a wrong password."""
        return True

    def is_closed(self, driver: Any) -> bool:
        """Return whether the driver knows that its connection has ended."""
        return False

    @abstractmethod
    def owns(self, connection: object) -> bool:
        """Return whether this is an open DBAPI connection of this database's driver."""

    def async_driver(self, connection: object) -> AsyncDriver | None:
        """Return an asynchronous driver for a caller's connection; None for one that is of none."""
        return None

    def caller_cursor(self, connection: object) -> Cursor | None:
        """Return a cursor on a caller's connection of a synchronous driver for this database; None: it is of none."""
        return self.cursor(connection) if self.owns(connection) else None

    def for_driver(self, driver: object, dialect: AlchemyDialect) -> AlchemyDialect | None:
        """Return the SQLAlchemy dialect that compiles statements for a caller's driver; None: as for our own."""
        return None

    def has_tables(self, run: Runner) -> bool:
        """Return whether our tables exist, on a database where querying a missing table breaks the transaction."""
        return True

    def is_same_place(self, run: Runner) -> bool:
        """Return whether the connection reaches the store's own tables, by other means than the identity."""
        return True

    def is_strange(self, error: BaseException) -> bool:
        """Return whether a statement failed because our tables do not exist, with any driver."""
        return _has_code(error, self.strange)

    def is_cancelled(self, error: BaseException) -> bool:
        """Return whether a time limit or an operator has cancelled the statement."""
        return _has_code(error, self.cancelled)

    def must_be_open(self, driver: Any) -> None:  # noqa: B027 - most tell by themselves
        """Raise CannotJoin for a caller's connection of our driver that commits each statement by itself."""

    @abstractmethod
    def values(self, name: str, kind: AnyType) -> SelectBase:
        """Return the elements of the JSON array in parameter `name`, as a subquery for IN."""

    @abstractmethod
    def among(self, column: str, name: str, kind: str = "text") -> str:
        """Return the condition that a column equals an element of parameter `name`, in the form of `listed`."""

    def among_many(self, column: str, name: str) -> str:
        """Return the same condition for statements that scan the table anyway; it may have thousands of elements."""
        return self.among(column, name)

    @abstractmethod
    def among_slots(self, name: str) -> str:
        """Return the condition that a locked slot is in parameter `name`, in the form of `listed_slots`."""

    def slot_rows(self, columns: str, name: str, locking: str) -> str:
        """Return the query for slots in parameter `name`; it locks them, if `locking` is not empty, in their order."""
        slots = f"stanchion_slots {self.by('PRIMARY')}"
        return f"SELECT {columns} FROM {slots} WHERE {self.among_slots(name)} ORDER BY {self.slot_order} {locking}"

    def behind_slot(self, *columns: str) -> str:
        """Return the condition that three columns of an index, compared together, follow the slot in the parameters.

        If the index has several rows of a slot, the next column, a number, makes the search start behind all of them.
        """
        values = (":kind", ":queue", ":name", str(_LAST))[: len(columns)]
        return f"({', '.join(columns)}) > ({', '.join(values)})"

    def listed(self, elements: Iterable[str]) -> object:
        """Return the parameter for `among`, sorted, so that all callers lock in the same order."""
        return json.dumps(sorted(elements), ensure_ascii=False)

    def listed_slots(self, slots: Iterable[Slot]) -> object:
        """Return the parameter for `among_slots`, sorted."""
        return json.dumps(sorted(slots), ensure_ascii=False)

    @abstractmethod
    def elements(self, name: str) -> str:
        """Return a table `given` with the column `value`: the texts of the JSON array in parameter `name`."""

    @abstractmethod
    def table(self, name: str, columns: Mapping[str, Kind]) -> str:
        """Return a table `given` with these columns: the lists in the JSON array in `name`."""

    def slots(self, name: str) -> str:
        """Return the table of the slots in a JSON array."""
        return self.table(name, dict.fromkeys(Slot._fields, Kind.NAME))

    def positions(self, name: str) -> str:
        """Return the table of pairs of a flow node and the index of a member."""
        return self.table(name, {"node": Kind.ID, "member_index": Kind.INT})

    def assignments(self, name: str) -> str:
        """Return the table of pairs of a job and its worker."""
        return self.table(name, {"id": Kind.ID, "worker": Kind.NAME})

    def array(self, *values: str) -> str:
        """Return a JSON array of the values of expressions, as text."""
        return f"json_array({', '.join(values)})"

    def joined(self, *texts: str) -> str:
        """Return one text after the other."""
        return f"({' || '.join(texts)})"

    def behind(self, mark: str, text: str) -> str:
        """Return the part of a text after the first `mark`, a single character."""
        return f"substr({text}, instr({text}, {mark}) + 1)"

    def returning(self, columns: Iterable[str]) -> str:
        """Return the clause of an UPDATE that returns the changed rows; empty if the database has none."""
        return "RETURNING " + ", ".join(
            f"CAST({one} AS CHAR(36))" if one in ID_COLUMNS else f'"{one}"' for one in columns
        )

    def by(self, index: str) -> str:
        """Return the index hint for a statement; empty if the database needs none."""
        return ""

    def by_bytes(self, column: ColumnElement[str]) -> ColumnElement[str]:
        """Return a column of text that compares byte by byte."""
        return column

    def position(self, column: ColumnElement[str], text: ColumnElement[str]) -> ColumnElement[int]:
        """Return the case-sensitive position of a text in a column, from 1; 0 if it does not occur."""
        return func.instr(column, text)

    def readable(self) -> list[ColumnElement[bool] | TextClause]:
        """Return the conditions that a live job has the right types, and text in UTF-8; none if all jobs have."""
        return []

    def fitted(self, _names: Sequence[str], rows: list[Row]) -> list[tuple[object, ...]]:
        """Return rows of these fields of jobs with the right types, which most databases guarantee."""
        return rows

    @abstractmethod
    def insert_ignoring(self, table: Table, values: Mapping[str, object]) -> Executable:
        """Return an insert that skips a row which would violate a unique index."""

    @abstractmethod
    def insert_ignoring_from(self, table: Table, columns: Sequence[str], rows: AnySelect) -> Executable:
        """Return an insert of a query's rows that skips rows which would violate a unique index."""

    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake the listeners of these queues, or of the ends of these jobs, soon; returns without waiting."""
        self.signals.announce(queues, finished)

    def announce_in(self, caller: Caller, run: Runner, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake the listeners once the caller's transaction is committed; never if it is rolled back.

        Without further effort only callers that report their commit are heard; `run` is in the transaction.
        """
        announce_after_commit(caller, self.signals, queues, finished)
