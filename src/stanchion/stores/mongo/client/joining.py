"""Taking part in the caller's transaction.

A session works with the client that began it, so the commands go out by that client. What must not wait for, or fall
with, the caller's transaction (the documents of new queues, the clock) goes by ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pymongo
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import DocumentTooLarge, PyMongoError

from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.mongo.client.errors import TOO_LARGE, is_too_large, without_documents
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.schema import MARK
from stanchion.stores.mongo.client.server import CALL_SECONDS, Server

T = TypeVar("T")


class Joined:
    """Calls that are part of one transaction. They are not retried: that is for the caller, with all of it."""

    in_transaction = True

    def __init__(self, outside: Server, session: ClientSession) -> None:
        self.outside = outside
        self._inside = outside.place_in(session.client, session)

    def now(self) -> int:
        """Return the server's clock."""
        return self.outside.now()

    def at(self, date: Any) -> int:
        """Return the time that a date of the server's clock stands for."""
        return self.outside.at(date)

    def call(self, work: Callable[[Place, bool], T], seconds: float = CALL_SECONDS) -> T:
        """Do the work once."""
        try:
            with pymongo.timeout(seconds):
                return work(self._inside, False)
        except DocumentTooLarge:
            raise InvalidInput(TOO_LARGE) from None
        except PyMongoError as error:  # by its labels the caller tells whether to try again
            if is_too_large(without_documents(error)):
                raise InvalidInput(TOO_LARGE) from None
            raise


def join(server: Server, transaction: Any) -> Joined:
    """Return the way into the caller's transaction; CannotJoin for what is none, or one of another server."""
    if not isinstance(transaction, ClientSession):
        raise CannotJoin(
            f"tx must be a pymongo ClientSession, not {type(transaction).__name__}; "
            f"begin one with client.start_session(), or with app.transaction()"
        )
    if not transaction.in_transaction:
        raise CannotJoin("the session given as tx has no transaction open; call session.start_transaction() first")
    if not _same(server, transaction.client):
        raise CannotJoin(
            f"tx is on another server than the queue, which is on {server.address.shown}; both must be one to "
            f"commit as one"
        )
    return Joined(server, transaction)


@contextmanager
def transaction(server: Server) -> Iterator[ClientSession]:
    """Open a transaction; CannotJoin on a standalone server."""
    with server.faults():
        hello = server.call(lambda on, _again: on.database.client.admin.command("hello"))
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            raise CannotJoin(
                "a standalone MongoDB server has no transactions; leave tx out, or make the server a replica set, "
                "which may have one member"
            )
        with server.place.database.client.start_session() as session, session.start_transaction():
            yield session


def _same(server: Server, client: MongoClient[Any]) -> bool:
    """Tell whether a caller's client reaches the database of the store: it finds the same mark there."""
    if client is server.place.database.client or client in server.joined:
        return True
    ours = server.call(lambda on, _again: on.meta.find_one({"_id": MARK}, {"store": 1}))
    with pymongo.timeout(CALL_SECONDS):
        theirs = server.place_in(client).meta.find_one({"_id": MARK}, {"store": 1})
    if ours is None or ours != theirs:
        return False
    server.joined.add(client)
    return True
