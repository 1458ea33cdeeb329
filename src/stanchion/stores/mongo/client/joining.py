"""Taking part in a caller's transaction.

A session works only with the client that began it, so the transaction's commands use that client. Commands that must
not wait for the transaction, or be rolled back with it (the documents of new queues, the clock), use ours. Those of an
AsyncClientSession run on the event loop of its client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pymongo
from bson.datetime_ms import DatetimeMS
from pymongo.client_session import ClientSession
from pymongo.errors import DocumentTooLarge, PyMongoError

from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.mongo.client.errors import TOO_LARGE, is_too_large, without_documents
from stanchion.stores.mongo.client.on_loop import AnyClient, AnySession
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.schema import SCHEMA_ID
from stanchion.stores.mongo.client.server import Server
from stanchion.stores.records import calls

T = TypeVar("T")


class Joined:
    """Calls within one transaction. They are not retried: the caller retries the whole transaction."""

    in_transaction = True

    def __init__(self, outside: Server, session: AnySession) -> None:
        self.outside = outside
        self._inside = outside.place_in(session.client, session)

    def now(self) -> int:
        """Return the server's clock."""
        return self.outside.now()

    def at(self, date: DatetimeMS) -> int:
        """Return a date of the server's clock as a stored time."""
        return self.outside.at(date)

    def call(self, work: Callable[[Place, bool], T], seconds: float | None = None) -> T:
        """Do the work once."""
        try:
            with pymongo.timeout(calls.CALL_SECONDS if seconds is None else seconds):
                return work(self._inside, False)
        except DocumentTooLarge:
            raise InvalidInput(TOO_LARGE) from None
        except PyMongoError as error:  # its labels show the caller whether to try again
            if is_too_large(without_documents(error)):
                raise InvalidInput(TOO_LARGE) from None
            raise


def join(server: Server, transaction: object) -> Joined:
    """Return the access within the caller's transaction; CannotJoin for another object, or another server."""
    if not isinstance(transaction, AnySession):
        raise CannotJoin(
            f"tx must be a pymongo ClientSession or AsyncClientSession, not {type(transaction).__name__}; "
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


def _same(server: Server, client: AnyClient) -> bool:
    """Return True if a caller's client reaches the database of the store: it has the same identity there."""
    if client is server.place.database.client or client in server.joined:
        return True
    ours = server.call(lambda on, _again: on.meta.find_one({"_id": SCHEMA_ID}, {"store": 1}))
    with pymongo.timeout(calls.CALL_SECONDS):
        theirs = server.place_in(client).meta.find_one({"_id": SCHEMA_ID}, {"store": 1})
    if ours is None or ours != theirs:
        return False
    server.joined.add(client)
    return True
