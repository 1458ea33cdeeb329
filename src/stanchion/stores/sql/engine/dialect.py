"""What differs between SQL databases, as far as the shared implementation needs to know."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from typing import Any, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Executable, Select, SelectBase, Table, bindparam, func
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.types import TypeEngine

from stanchion.stores.protocol import Listener
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.sql.engine.runner import Runner, Together

IDLE_SECONDS = 15
"""After so long between two statements, more than a call may take, the server ends a transaction whose client has
vanished without a word; its locks would stand in everybody's way."""


class Fault(Enum):
    """Why a database refused a call."""

    LOST = auto()
    """The connection broke; the statement may have been carried out."""
    BUSY = auto()
    """A deadlock, a serialization failure or a lock; nothing was carried out."""
    OTHER = auto()
    """An error that a repeat won't mend."""


T = TypeVar("T")

_made: dict[tuple[type[Dialect], Callable[..., Any]], Any] = {}

CLOCK_OFFSET: ColumnElement[int] = bindparam("clock_offset", type_=BigInteger)


class Dialect(ABC):
    """One SQL database. Those of one kind write the same SQL, and are equal."""

    capabilities: Capabilities
    names: tuple[str, ...]
    """What SQLAlchemy calls this kind of database."""
    errors: tuple[type[Exception], ...]
    """What the driver raises."""
    single_writer: bool
    """The whole database has one write lock."""
    remote: bool
    """Calls go over a socket."""
    makes_schema: bool
    """The schema is made on first use, without `stanchion setup`."""
    begin: str
    """Opens a transaction that will write."""
    or_lock = "ON CONFLICT DO NOTHING"
    """Ends an insert of gates that locks, without a change, those that are there already."""
    locking = "FOR UPDATE"
    locking_free = "FOR UPDATE SKIP LOCKED"
    """Ends a read that locks what nobody else has locked, and leaves out the rest."""
    reading = ""
    """Ends a read that, in a caller's transaction as well, sees what was committed last; it may wait for others."""
    way_out: str
    """What to do when the database can't be reached."""
    rights = "give the user of the URL the rights that the store's page names"
    """What to do when rights are missing."""
    now: ColumnElement[int]
    """The database's clock, plus CLOCK_OFFSET."""
    new_identity: str
    """Makes a text that no other database has."""
    identity: str
    """What a row of stanchion_meta is known by, and no copy of it in another place of the same server."""
    strange: frozenset[Any]
    """The codes of errors that say that there is no such table or column, or no database at all."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def once(self, make: Callable[[Dialect], T]) -> T:
        """Return what `make` makes of a dialect of this kind, such as statements: the same for all stores."""
        key = (type(self), make)
        made: T | None = _made.get(key)
        if made is None:
            made = _made.setdefault(key, make(self))
        return made

    @abstractmethod
    def engine_options(self) -> dict[str, Any]:
        """Return options for `create_engine`."""

    def is_there(self) -> bool:
        """Tell whether there is a database to connect to, as far as that is known without making one."""
        return True

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most need nothing
        """Set up what every new connection needs."""

    def lock_schema(self, connection: Connection) -> AbstractContextManager[None]:
        """Keep other processes from changing the schema while the block, or else the transaction, lasts."""
        return nullcontext()  # a single writer has its lock

    def start(self, cursor: Any, *, durable: bool = True) -> None:
        """Begin a transaction; `durable`: as `undurable` says, for a database that is told within it."""
        cursor.execute(self.begin)

    def together(self, cursor: Any) -> AbstractContextManager[Together | None]:
        """Send the statements of a block several at a time; None where the driver can't do that."""
        return nullcontext()

    def commit_early(self, cursor: Any, *, durable: bool) -> None:
        """Send the commit of a transaction behind its last statements, before these have answered.

        Where locks are held until the disk has it, they need not be: the answer alone must wait for that.
        """
        cursor.execute("COMMIT")

    def see_to_disk(self, cursor: Any) -> None:  # noqa: B027 - most need nothing
        """See that the end of a transaction waits for the disk to have all that was committed before it."""

    def undurable(self, cursor: Any) -> AbstractContextManager[None]:
        """Let a transaction in the block be committed without waiting for the disk, where that is cheaply had."""
        return nullcontext()

    def unhurried(self, connection: Connection) -> AbstractContextManager[None]:
        """Let a transaction in the block, a caller's, be idle for as long as it likes."""
        return nullcontext()

    @abstractmethod
    def cursor(self, driver: Any) -> Any:
        """Return a cursor whose rows are tuples."""

    def fileno(self, driver: Any) -> int:
        """Return the socket of an open connection."""
        return int(driver.fileno())

    @abstractmethod
    def fault(self, error: BaseException) -> Fault:
        """Classify an error of the driver."""

    def advice(self, error: BaseException) -> str:
        """Say what to do about a database that can't be reached."""
        return self.way_out

    @abstractmethod
    def is_forbidden(self, error: BaseException) -> bool:
        """Tell whether this user, or this process, lacks the right to do what was asked."""

    def is_old_snapshot(self, error: BaseException) -> bool:
        """Tell whether a transaction can't write any more, as it reads what was there before another had written."""
        return False

    def worth_retrying(self, error: BaseException) -> bool:
        """Return False for a fault that time won't mend, such as a wrong password."""
        return True

    @abstractmethod
    def owns(self, connection: Any) -> bool:
        """Tell whether this is an open DBAPI connection of this database's driver."""

    def has_tables(self, run: Runner) -> bool:
        """Tell whether our tables are there, where a statement about missing ones would break the transaction."""
        return True

    def is_same_place(self, run: Runner) -> bool:
        """Tell whether this is where the store is, in whatever way there is beside its identity."""
        return True

    def is_strange(self, error: BaseException) -> bool:
        """Tell whether a statement failed for our tables are not there, whatever the driver."""
        return not self.strange.isdisjoint({getattr(error, "sqlstate", None), *error.args[:1]})

    def must_be_open(self, driver: Any) -> None:  # noqa: B027 - most tell by themselves
        """Raise CannotJoin for a connection of a caller that has no transaction and would not begin one."""

    @abstractmethod
    def values(self, name: str, kind: TypeEngine[Any]) -> SelectBase:
        """Return the elements of the JSON array in parameter `name`, as a subquery for IN."""

    @abstractmethod
    def among(self, column: str, name: str, kind: str = "text") -> str:
        """Return the condition that a column is one of the elements of parameter `name`, as `listed` gives it."""

    def listed(self, elements: Iterable[str]) -> Any:
        """Return the parameter for `among`, in one order for all."""
        return json.dumps(sorted(elements), ensure_ascii=False)

    @abstractmethod
    def elements(self, name: str) -> str:
        """Return a table `given` with the column `value`: the texts in the JSON array in parameter `name`."""

    @abstractmethod
    def places(self, name: str) -> str:
        """Return a table `given` with the columns `node` and `place`: the pairs in the JSON array in `name`."""

    def begins(self, column: str, prefix: str) -> str:
        """Return the condition that a text begins like this; the prefix is two plain letters."""
        return f"{column} LIKE '{prefix}%'"

    def returning(self, columns: Iterable[str]) -> str:
        """Return the end of an UPDATE that gives the rows as they are now; nothing where there is none."""
        ids = {"id", "origin"}
        return "RETURNING " + ", ".join(f"CAST({one} AS CHAR(36))" if one in ids else f'"{one}"' for one in columns)

    def by(self, index: str) -> str:
        """Return the hint that makes a statement go by this index, where one must be told."""
        return ""

    def by_bytes(self, column: ColumnElement[str]) -> ColumnElement[str]:
        """Return a column of text that compares byte by byte."""
        return column

    def position(self, column: ColumnElement[str], text: ColumnElement[str]) -> ColumnElement[int]:
        """Return where a text is in a column, from 1 on, upper and lower case apart; 0 where it is not."""
        return func.instr(column, text)

    @abstractmethod
    def insert_ignoring(self, table: Table, values: Mapping[str, Any]) -> Executable:
        """Return an insert that leaves out a row which would break a unique index."""

    @abstractmethod
    def insert_ignoring_from(self, table: Table, columns: Sequence[str], rows: Select[Any]) -> Executable:
        """Return an insert of what a query gives that leaves out rows which would break a unique index."""

    @abstractmethod
    def listen(self, queues: Iterable[str], finished: Iterable[str] | None, *, interchangeable: bool) -> Listener:
        """Start listening, as `Store.listen` does."""

    @abstractmethod
    def announce(self, queues: Iterable[str], finished: Collection[str] = ()) -> None:
        """Wake who waits for work in these queues, or for the ends of these jobs, soon and without waiting."""

    def announce_in(  # noqa: B027 - not every one must
        self, transaction: Any, queues: Iterable[str], finished: Collection[str] = ()
    ) -> None:
        """Wake the listeners once the caller's transaction is committed, and not if it is rolled back."""

    @abstractmethod
    def close(self) -> None:
        """End the threads and connections of the wake-up."""
