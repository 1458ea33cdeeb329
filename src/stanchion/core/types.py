"""Types of the API: transactions that a caller has open, without an import of any driver; results of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias


class Commits(Protocol):
    """A session or connection that ends its transaction itself.

    SQLAlchemy's Session, Connection, AsyncSession, AsyncConnection and their scoped forms, the connections of psycopg,
    PyMySQL, mysqlclient, asyncmy, sqlite3 and aiosqlite, and Django's.
    """

    def commit(self) -> object:
        """Commit, or return an awaitable that does."""

    def rollback(self) -> object:
        """Roll back, or return an awaitable that does."""


class BeginsTransactions(Protocol):
    """A connection of asyncpg, whose transactions are objects of their own."""

    def transaction(self) -> object:
        """Return a transaction to be begun."""

    def is_in_transaction(self) -> bool:
        """Return whether one is open."""


class Pooled(Protocol):
    """A connection that an asyncpg pool has lent."""

    _con: Any
    _holder: Any


class MongoTransaction(Protocol):
    """A ClientSession or AsyncClientSession of PyMongo."""

    def commit_transaction(self) -> object:
        """Commit, or return an awaitable that does."""

    def abort_transaction(self) -> object:
        """Roll back, or return an awaitable that does."""


Transaction: TypeAlias = Commits | BeginsTransactions | Pooled | MongoTransaction
"""A transaction that `tx` takes."""

if TYPE_CHECKING:  # type checkers bring the module; Python 3.11 has no defaults of type variables
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)
"""The type of a result: `JobHandle[int]`. A class without it has results of any type."""
