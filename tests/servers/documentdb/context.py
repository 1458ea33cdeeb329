"""What a command is executed with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tests.servers.documentdb.backend import Session, Sessions
from tests.servers.documentdb.capped import CappedCollections
from tests.servers.documentdb.cursors import Cursors
from tests.servers.documentdb.errors import CommandError
from tests.servers.documentdb.tailing import Tails
from tests.servers.documentdb.transactions import Transactions
from tests.servers.documentdb.wire import Command

Like = Literal["standalone", "replica-set", "mongos"]

ILLEGAL_OPERATION = 20


@dataclass(frozen=True)
class Parts:
    """What all connections share."""

    sessions: Sessions
    transactions: Transactions
    cursors: Cursors
    capped: CappedCollections
    tails: Tails


@dataclass(frozen=True)
class Context:
    """A client's connection, and what it shares with the others."""

    parts: Parts
    client: int
    port: int
    like: Like

    @contextmanager
    def session(self, command: Command) -> Iterator[Session]:
        """Lend the PostgreSQL session that the command must run in."""
        if self.like == "standalone" and "txnNumber" in command.body:
            raise CommandError(
                ILLEGAL_OPERATION, "Transaction numbers are only allowed on a replica set member or mongos"
            )
        if command.in_transaction:
            with self.parts.transactions.session(command, self.client) as session:
                yield session
        else:
            with self.parts.sessions.one() as session:
                session.limit_time(int(command.body.get("maxTimeMS", 0)))
                yield session


Answer = dict[str, Any] | bytes
Handler = Callable[[Context, Command], Answer]
