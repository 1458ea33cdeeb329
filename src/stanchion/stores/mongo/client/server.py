"""The connection to MongoDB: deadlines, the retries that are safe, and what is said when they don't help."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import MongoClient, ReadPreference
from pymongo.client_session import ClientSession
from pymongo.errors import ConfigurationError, DocumentTooLarge, InvalidOperation, InvalidURI, PyMongoError
from pymongo.uri_parser import parse_uri

from stanchion.core.forks import reset_after_fork
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.mongo.client.address import Address
from stanchion.stores.mongo.client.documents import Document, micros
from stanchion.stores.mongo.client.errors import (
    TOO_LARGE,
    Fault,
    fault_of,
    is_too_large,
    reason_of,
    way_out,
    without_documents,
)
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.records.jobs import SECOND

T = TypeVar("T")

CALL_SECONDS = 10.0
"""No call takes longer than about this, its retries included,"""
BULK_SECONDS = 600.0
"""but for those of operators that may touch every job of a queue."""

ARMS = 40
"""So many aggregations go into one command."""

_DEFAULTS: dict[str, Any] = {
    "appname": "stanchion",
    "serverSelectionTimeoutMS": 5000,
    "connectTimeoutMS": 5000,
    "socketTimeoutMS": 10_000,
    "w": "majority",
    "journal": True,
}
CODECS: CodecOptions[Document] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
"""Dates are read as milliseconds: the clock of the server can't be mistaken for that of the client."""


class Access(Protocol):
    """A way to the collections: the server's own, or one within a caller's transaction."""

    in_transaction: bool

    @property
    def outside(self) -> Server:
        """The server, for what is no part of a caller's transaction."""

    def now(self) -> int:
        """Return the server's clock."""

    def at(self, date: Any) -> int:
        """Return the time that a date of the server's clock stands for."""

    def call(self, work: Callable[[Place, bool], T], seconds: float = ...) -> T:
        """Do the work within so many seconds; it is told when it is a repeat after a lost reply."""


class Server:
    """A client, made on first use, and calls to it."""

    in_transaction = False

    def __init__(self, address: Address) -> None:
        self.address = address
        self.clock_offset = 0.0
        self.joined: WeakSet[MongoClient[Any]] = WeakSet()
        """Clients of callers that were found to reach this store."""
        self.queues_made: set[str] = set()
        """The queues that this process knows to have a document: another process may have dropped one since."""
        self._options = _options(address.url)
        self._place: Place | None = None
        reset_after_fork(self)

    def begin(self) -> None:
        """Have no client; that of before a fork is the parent's."""
        self._opening = threading.Lock()
        self._place = None

    @property
    def place(self) -> Place:
        """The collections of this store."""
        place = self._place
        if place is None:
            with self._opening:
                place = self._place = self._place or self.place_in(self._connect())
        return place

    def place_in(self, client: MongoClient[Document], session: ClientSession | None = None) -> Place:
        """Return the collections as this client reaches them, read where they are written."""
        database = client.get_database(
            self.address.database, codec_options=CODECS, read_preference=ReadPreference.PRIMARY
        )
        return Place(database, session)

    @property
    def outside(self) -> Server:
        """This: nothing here is part of a caller's transaction."""
        return self

    def now(self) -> int:
        """Return the server's clock."""
        answer = self.call(lambda on, _again: on.database.client.admin.command("hello", codec_options=CODECS))
        return self.at(answer["localTime"])

    def at(self, date: Any) -> int:
        """Return the time that a date of the server's clock stands for."""
        return micros(date) + int(self.clock_offset * SECOND)

    def call(self, work: Callable[[Place, bool], T], seconds: float = CALL_SECONDS) -> T:
        """Do the work, again while that is safe and may help; it is told when it is a repeat after a lost reply."""
        started, pause, again = time.monotonic(), 0.01, False
        while True:
            try:
                with pymongo.timeout(max(0.001, seconds - (time.monotonic() - started))):
                    return work(self.place, again)
            except DocumentTooLarge:
                raise InvalidInput(TOO_LARGE) from None
            except PyMongoError as error:
                fault = fault_of(without_documents(error))
                if is_too_large(error):
                    raise InvalidInput(TOO_LARGE) from None
                if fault is Fault.OTHER:
                    raise
                if fault is Fault.LOST:
                    again = True
                if fault is Fault.HOPELESS or time.monotonic() - started + pause > seconds:
                    raise self.unavailable(error) from error
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            pause = min(pause * 2, 0.5)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Say in our words what goes wrong with the server in the block."""
        try:
            yield
        except PyMongoError as error:
            if fault_of(without_documents(error)) is Fault.OTHER:
                raise
            raise self.unavailable(error) from error

    def unavailable(self, error: PyMongoError) -> StoreUnavailable:
        """Return the error to raise when retrying does not help."""
        reason = self.address.without_password(reason_of(error))
        told = f"can't use the store {self.address.shown}: {reason}; {way_out(error)}"
        return StoreUnavailable(told, lasting=fault_of(error) is Fault.HOPELESS)

    def close(self) -> None:
        """Close all connections; a later call opens them anew."""
        place, self._place = self._place, None
        if place is not None:
            place.database.client.close()

    def _connect(self) -> MongoClient[Document]:
        try:
            return MongoClient(self.address.url, connect=False, **self._options)
        except ConfigurationError as error:  # the DNS knows nothing of a mongodb+srv host
            raise self.unavailable(error) from error


def across(server: Access, arms: Sequence[Sequence[Document]]) -> Iterator[Document]:
    """Yield the jobs that these aggregations find, in no promised order, many aggregations in one command."""
    for start in range(0, len(arms), ARMS):
        first, *rest = arms[start : start + ARMS]

        def work(
            on: Place, _again: bool, first: Sequence[Document] = first, rest: list[Sequence[Document]] = rest
        ) -> list[Document]:
            others = ({"$unionWith": {"coll": on.jobs.name, "pipeline": list(one)}} for one in rest)
            return on.documents(on.jobs, *first, *others)

        yield from server.call(work)


def _options(url: str) -> dict[str, Any]:
    """Return our options but for those that the URL gives; InvalidInput for a URL that makes no sense."""
    try:
        # Without the DNS look-up that +srv stands for.
        given = parse_uri(url.replace("mongodb+srv://", "mongodb://", 1), warn=False)["options"]
    except (InvalidURI, ConfigurationError, ValueError, InvalidOperation) as error:
        raise InvalidInput(f"the URL of the store makes no sense: {error}") from None
    if given.get("w") == 0:
        raise InvalidInput("w=0 in the URL of the store: a queue must know what was written; leave it out")
    return {name: value for name, value in _DEFAULTS.items() if name.lower() not in {one.lower() for one in given}}
