"""Transactions of clients, each in a PostgreSQL session of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.servers.documentdb.backend import Session, Sessions
from tests.servers.documentdb.errors import BackendLost, CommandError
from tests.servers.documentdb.wire import Command

LIFETIME_SECONDS = 60
BEGIN = f"""
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET LOCAL idle_in_transaction_session_timeout = '{LIFETIME_SECONDS}s'
"""


@dataclass
class Transaction:
    """An open transaction; `client` is the connection that used it last."""

    number: int
    session: Session
    client: int
    busy: threading.Lock = field(default_factory=threading.Lock)


class Transactions:
    """All open transactions, by client session."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._open: dict[bytes, Transaction] = {}
        self._committed: dict[bytes, int] = {}

    @contextmanager
    def session(self, command: Command, client: int) -> Iterator[Session]:
        """Lend the session of the command's transaction; any error ends the transaction."""
        if any("$unionWith" in stage for stage in command.body.get("pipeline", ())):
            raise CommandError(263, "Stage not supported inside of a multi-document transaction: $unionWith")
        if command.body.get("startTransaction"):
            self._begin(command, client)
        transaction = self._find(command)
        transaction.client = client
        with transaction.busy:
            try:
                yield transaction.session
            except BaseException:
                self.forget(command)
                raise

    def commit(self, command: Command) -> None:
        """Commit; a second time it is known to be done."""
        if self._committed.get(command.logical_session) == command.body["txnNumber"]:
            return
        transaction = self._find(command)
        with transaction.busy:
            try:
                transaction.session.run("COMMIT")
            except CommandError:
                self.forget(command)
                raise
            self._committed[command.logical_session] = transaction.number
            del self._open[command.logical_session]
            self._sessions.give_back(transaction.session)

    def abort(self, command: Command) -> None:
        """Roll back."""
        self._find(command)
        self.forget(command)

    def forget(self, command: Command) -> None:
        """Roll back the command's transaction, if it is open."""
        self._roll_back(command.logical_session)

    def end_session(self, session: bytes) -> None:
        """Roll back what the client session has open."""
        self._roll_back(session)

    def end_client(self, client: int) -> None:
        """Roll back what a connection that has gone used last."""
        for session, transaction in list(self._open.items()):
            if transaction.client == client:
                self._roll_back(session)

    def _begin(self, command: Command, client: int) -> None:
        self.forget(command)
        session = self._sessions.take()
        try:
            session.limit_time(0)
            session.run(BEGIN)
        except BaseException:
            session.close()
            raise
        self._open[command.logical_session] = Transaction(command.body["txnNumber"], session, client)

    def _find(self, command: Command) -> Transaction:
        transaction = self._open.get(command.logical_session)
        if transaction is None or transaction.number != command.body["txnNumber"]:
            raise CommandError(251, f"transaction {command.body['txnNumber']} is not open")
        return transaction

    def _roll_back(self, session: bytes) -> None:
        transaction = self._open.pop(session, None)
        if transaction is not None:
            with suppress(CommandError, BackendLost):
                transaction.session.run("ROLLBACK")
            self._sessions.give_back(transaction.session)
